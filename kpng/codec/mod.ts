/**
 * Encodes and decodes protocol buffers by declared schemas.
 *
 * In: bytes or plain objects. Out: plain objects or bytes. May touch: nothing.
 */
export { WireError } from "./wire.ts";
export {
  bool,
  bytes,
  double,
  type Enumeration,
  type Field,
  type Fields,
  type FieldShape,
  int32,
  type Message,
  message,
  nested,
  type Schema,
  several,
  text,
  textMap,
  texts,
  type TypeOf,
  uint64,
} from "./schema.ts";
