#include "plan/check.h"

bool es_refuse(es_check *check, uint16_t invariant, int32_t index)
{
    check->fault.invariant = invariant;
    check->fault.index = index;
    return false;
}
