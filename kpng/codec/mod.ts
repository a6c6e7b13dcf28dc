/**
 * Encodes and decodes protobuf 3 messages by their declarations, from which TypeScript's types follow, too. Fields that are absent
 * or have their default value (0, "", false, empty) are undefined after decoding and are not written.
 *
 * In: bytes or plain objects. Out: plain objects or bytes. May touch: nothing.
 */
import { createReader, createWriter, type Reader, WireError, type Writer } from "./wire.ts";
export { WireError } from "./wire.ts";

interface ValueType<T> {
  readonly shape: FieldShape;
  readonly wireType: 0 | 1 | 2;
  /** Whether it is the default value, which is not written. */
  isDefault(value: T): boolean;
  write(writer: Writer, value: T): void;
  read(reader: Reader): T;
}

/** A field of a message. */
export interface Field<T> {
  readonly number: number;
  readonly shape: FieldShape;
  write(writer: Writer, value: T): void;
  /** The field's value after another occurrence. */
  read(reader: Reader, wireType: number, before: T | undefined): T;
}

/** The values of an enum by name, the default one first. */
export type Enumeration = Readonly<Record<string, number>>;

/** The type of a field, for other formats than protobuf's. */
export type FieldShape =
  | { readonly kind: "text" | "double" | "uint64" | "boolean" | "bytes" | "map" }
  | { readonly kind: "number"; readonly enumeration?: Enumeration }
  | { readonly kind: "message"; readonly message: Schema }
  | { readonly kind: "list"; readonly of: FieldShape };

/** The fields of a message by name. */
export type Fields = Readonly<Record<string, Field<unknown>>>;

/** A message type, known only by its fields. */
export interface Schema {
  readonly fields: Fields;
}

/** The type of a message with these fields. */
type ValueOf<F extends Fields> = { readonly [K in keyof F]?: F[K] extends Field<infer T> ? T : never };

/** A message type. */
export interface Message<T> extends Schema {
  encode(value: T): Uint8Array<ArrayBuffer>;
  /** Throws WireError for invalid bytes. Skips unknown fields. */
  decode(bytes: Uint8Array<ArrayBuffer>): T;
  write(writer: Writer, value: T): void;
}

/** The values of a message type. */
export type TypeOf<M> = M extends Message<infer T> ? T : never;

const writer = createWriter();

/** Declares a message type. */
export function message<F extends Fields>(fields: F): Message<ValueOf<F>> {
  const entries = Object.entries(fields).sort(([, a], [, b]) => a.number - b.number);
  const byNumber = new Map(entries.map(([name, field]) => [field.number, { name, field }]));

  const write = (writer: Writer, value: ValueOf<F>) => {
    for (const [name, field] of entries) {
      const held = (value as Record<string, unknown>)[name];
      if (held !== undefined) field.write(writer, held);
    }
  };

  return {
    fields,
    write,
    encode(value) {
      write(writer, value);
      return writer.finish();
    },
    decode(bytes) {
      const reader = createReader(bytes);
      const value: Record<string, unknown> = {};
      while (!reader.atEnd()) {
        const { field: number, wireType } = reader.key();
        const known = byNumber.get(number);
        if (known === undefined) reader.skip(number, wireType);
        else value[known.name] = known.field.read(reader, wireType, value[known.name]);
      }
      return value as ValueOf<F>;
    },
  };
}

function single<T>(number: number, type: ValueType<T>): Field<T> {
  return {
    number,
    shape: type.shape,
    write(writer, value) {
      if (!type.isDefault(value)) writeOne(writer, number, type, value);
    },
    read: (reader, wireType) => readOne(reader, wireType, number, type),
  };
}

function writeOne<T>(writer: Writer, number: number, type: ValueType<T>, value: T): void {
  writer.key(number, type.wireType);
  type.write(writer, value);
}

function readOne<T>(reader: Reader, wireType: number, number: number, type: ValueType<T>): T {
  if (wireType !== type.wireType) throw new WireError(`field ${number} has the wrong wire type`);
  return type.read(reader);
}

function scalar<T>(
  kind: "text" | "number" | "boolean" | "uint64" | "double",
  wireType: 0 | 1 | 2,
  initial: T,
  write: (to: Writer, value: T) => void,
  read: (from: Reader) => T,
): ValueType<T> {
  return { shape: { kind }, wireType, isDefault: (value) => value === initial, write, read };
}

const TEXT = scalar<string>("text", 2, "", (to, value) => to.string(value), (from) => from.string());
const NUMBER = scalar<number>("number", 0, 0, (to, value) => to.varint(value), (from) => from.varint());
const BOOLEAN = scalar("boolean", 0, false, (to, value) => to.varint(value ? 1 : 0), (from) => from.varint() !== 0);
const HASH = scalar<bigint>("uint64", 0, 0n, (to, value) => to.uint64(value), (from) => from.uint64());
const DOUBLE = scalar<number>("double", 1, 0, (to, value) => to.double(value), (from) => from.double());
const BYTES: ValueType<Uint8Array<ArrayBuffer>> = {
  shape: { kind: "bytes" },
  wireType: 2,
  isDefault: (value) => value.length === 0,
  write: (to, value) => to.bytes(value),
  read: (from) => from.bytes(),
};

/** A `string`. */
export const text = (number: number): Field<string> => single(number, TEXT);
/** An `int32`, or an enum. */
export const int32 = (number: number, enumeration?: Enumeration): Field<number> =>
  single(number, { ...NUMBER, shape: { kind: "number", enumeration } });
/** A `bool`. */
export const bool = (number: number): Field<boolean> => single(number, BOOLEAN);
/** A `uint64`. */
export const uint64 = (number: number): Field<bigint> => single(number, HASH);
/** A `double`. */
export const double = (number: number): Field<number> => single(number, DOUBLE);
/** A `bytes`. */
export const bytes = (number: number): Field<Uint8Array<ArrayBuffer>> => single(number, BYTES);

/** A nested message. An empty one differs from an absent one. */
export const nested = <T>(number: number, of: Message<T>): Field<T> => single(number, messageType(of));

/** A `repeated string`. */
export const texts = (number: number): Field<readonly string[]> => list(number, TEXT);
/** A `repeated` message. */
export const several = <T>(number: number, of: Message<T>): Field<readonly T[]> => list(number, messageType(of));

function list<T>(number: number, type: ValueType<T>): Field<readonly T[]> {
  return {
    number,
    shape: { kind: "list", of: type.shape },
    write(writer, values) {
      for (const value of values) writeOne(writer, number, type, value);
    },
    read(reader, wireType, before = []) {
      const value = readOne(reader, wireType, number, type);
      if (before.length === 0) return [value];
      (before as T[]).push(value);
      return before;
    },
  };
}

function messageType<T>(of: Message<T>): ValueType<T> {
  return {
    shape: { kind: "message", message: of },
    wireType: 2,
    isDefault: () => false,
    write: (writer, value) => writer.sized(() => of.write(writer, value)),
    read: (reader) => of.decode(reader.bytes()),
  };
}

const ENTRY = message({ key: text(1), value: text(2) });

/** A `map<string, string>`, written in the order of its keys, so that equal maps have equal bytes. */
export function textMap(number: number): Field<Readonly<Record<string, string>>> {
  const type = messageType(ENTRY);
  return {
    number,
    shape: { kind: "map" },
    write(writer, value) {
      for (const key of Object.keys(value).sort()) {
        writer.key(number, 2);
        writer.sized(() => {
          writeOne(writer, 1, TEXT, key);
          writeOne(writer, 2, TEXT, value[key]!);
        });
      }
    },
    read(reader, wireType, before = {}) {
      const { key = "", value = "" } = readOne(reader, wireType, number, type);
      return { ...before, [key]: value };
    },
  };
}
