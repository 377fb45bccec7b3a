#include "edgesparse/store.h"

const char *es_store_status_text(es_store_status status)
{
    switch (status) {
#define ES_STORE_STATUS(name, value, text)                                     \
    case name:                                                                 \
        return text;
#include "edgesparse/store_status.inc"
#undef ES_STORE_STATUS
    }
    return "unknown";
}
