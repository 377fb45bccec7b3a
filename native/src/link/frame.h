/* The two framings of docs/LINK.md: lines of base64, and COBS. */
#ifndef ES_LINK_FRAME_H
#define ES_LINK_FRAME_H

#include "edgesparse/link.h"

typedef enum es_framing {
    ES_FRAMING_NONE,
    ES_FRAMING_CONSOLE,
    ES_FRAMING_COBS
} es_framing;

/* CRC-16/XMODEM: polynomial 0x1021, initial value 0, not reflected. */
uint16_t es_crc16(const uint8_t *bytes, uint32_t size);

/* Take one byte. Other than NONE: frame.have bytes in config.rx are a frame of
 * this framing, with its CRC, which has not been looked at. */
es_framing es_frame_feed(es_link *link, uint8_t byte);

/* Send the first `size` bytes of config.tx; the CRC goes behind them. */
void es_frame_send(es_link *link, es_framing framing, uint32_t size);

#endif /* ES_LINK_FRAME_H */
