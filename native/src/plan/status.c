#include "edgesparse/edgesparse.h"

const char *es_status_text(es_status status)
{
    switch (status) {
#define ES_STATUS(name, value, text)                                           \
    case name:                                                                 \
        return text;
#include "edgesparse/status.inc"
#undef ES_STATUS
    }
    return "unknown";
}
