/**
 * Encodes and decodes protocol buffers by declared schemas.
 *
 * In: bytes or plain objects. Out: plain objects or bytes. May touch: nothing.
 */
export { inLowerCase, writtenFields } from "./lower_case.ts";
export { fileDescriptor, type ProtoFile, symbolsOf } from "./descriptor.ts";
export { WireError } from "./reader.ts";
export {
  bool,
  bytes,
  byteStrings,
  double,
  type FieldShape,
  int32,
  type Message,
  message,
  nested,
  numbers,
  type Schema,
  several,
  text,
  textMap,
  texts,
  type TypeOf,
  uint64,
} from "./schema.ts";
