/** Descriptors of proto files (google/protobuf/descriptor.proto), from declared schemas, for gRPC's server reflection. */
import {
  bool,
  type Enumeration,
  type FieldShape,
  int32,
  message,
  presentInt32,
  type Schema,
  several,
  text,
  texts,
  type TypeOf,
} from "./schema.ts";

/** A method of a service. */
export interface ProtoMethod {
  readonly request: Schema;
  readonly response: Schema;
  readonly clientStreams?: boolean;
  readonly serverStreams?: boolean;
}

/** The declaration of a proto file. */
export interface ProtoFile {
  readonly name: string;
  readonly package: string;
  readonly imports?: readonly ProtoFile[];
  readonly messages: Readonly<Record<string, Schema>>;
  /** By name; one inside of a message is `Message.Name`. */
  readonly enumerations?: Readonly<Record<string, Enumeration>>;
  /** The groups of fields that exclude each other: by message, the name of the group and the schema's names of its fields. */
  readonly oneofs?: Readonly<Record<string, readonly [name: string, fields: readonly string[]]>>;
  /** Services, with their methods by name. */
  readonly services: Readonly<Record<string, Readonly<Record<string, ProtoMethod>>>>;
  /** The name in the file of a schema's field. */
  readonly fieldName: (name: string) => string;
}

const FIELD = message({
  name: text(1),
  number: int32(3),
  label: int32(4),
  type: int32(5),
  typeName: text(6),
  oneofIndex: presentInt32(9),
});
const ENUM_VALUE = message({ name: text(1), number: presentInt32(2) });
const ENUM = message({ name: text(1), value: several(2, ENUM_VALUE) });
const MESSAGE_OPTIONS = message({ mapEntry: bool(7) });
const MAP_ENTRY = message({ name: text(1), field: several(2, FIELD), options: several(7, MESSAGE_OPTIONS) });
const DESCRIPTOR = message({
  name: text(1),
  field: several(2, FIELD),
  nestedType: several(3, MAP_ENTRY),
  enumType: several(4, ENUM),
  oneofDecl: several(8, message({ name: text(1) })),
});
const METHOD = message({
  name: text(1),
  inputType: text(2),
  outputType: text(3),
  clientStreaming: bool(5),
  serverStreaming: bool(6),
});
const FILE = message({
  name: text(1),
  package: text(2),
  dependency: texts(3),
  messageType: several(4, DESCRIPTOR),
  enumType: several(5, ENUM),
  service: several(6, message({ name: text(1), method: several(2, METHOD) })),
  syntax: text(12),
});

const LABEL = { optional: 1, repeated: 3 } as const;
const TYPES = { double: 1, uint64: 4, number: 5, boolean: 8, text: 9, message: 11, bytes: 12 } as const;
const ENUM_TYPE = 14;

/** Encodes the `FileDescriptorProto` of a file. */
export function fileDescriptor(file: ProtoFile): Uint8Array<ArrayBuffer> {
  const names = typeNames(file);
  const { imports = [], messages, enumerations = {}, services } = file;
  return FILE.encode({
    name: file.name,
    package: file.package,
    dependency: imports.map(({ name }) => name),
    messageType: Object.entries(messages).map(([name, schema]) => messageDescriptor(file, names, name, schema)),
    enumType: Object.entries(enumerations).filter(([name]) => !name.includes(".")).map(enumDescriptor),
    service: Object.entries(services).map(([name, methods]) => ({
      name,
      method: Object.entries(methods).map(([name, { request, response, clientStreams, serverStreams }]) => ({
        name,
        inputType: names.get(request),
        outputType: names.get(response),
        clientStreaming: clientStreams,
        serverStreaming: serverStreams,
      })),
    })),
    syntax: "proto3",
  });
}

/** The full names of a file's messages, enumerations, services and methods. */
export function symbolsOf(file: ProtoFile): readonly string[] {
  const methods = Object.entries(file.services).flatMap(([service, methods]) =>
    Object.keys(methods).map((method) => `${service}.${method}`)
  );
  const names = [file.messages, file.enumerations ?? {}, file.services].flatMap(Object.keys);
  return [...names, ...methods].map((name) => `${file.package}.${name}`);
}

/** The names of types as descriptors write them, with a leading dot; a file's own come before imported ones. */
function typeNames({ package: prefix, imports = [], messages, enumerations = {} }: ProtoFile): Map<object, string> {
  const own = [...Object.entries(messages), ...Object.entries(enumerations)]
    .map(([name, type]): [object, string] => [type, `.${prefix}.${name}`]);
  return new Map([...imports.flatMap((file) => [...typeNames(file)]), ...own]);
}

function messageDescriptor(
  { package: prefix, enumerations = {}, oneofs = {}, fieldName }: ProtoFile,
  names: ReadonlyMap<object, string>,
  message: string,
  { fields }: Schema,
): TypeOf<typeof DESCRIPTOR> {
  const entries = Object.entries(fields);
  const [oneof, members = []] = oneofs[message] ?? [];
  const entryName = (name: string) => `${fieldName(name)}Entry`;
  return {
    name: message,
    field: entries.map(([name, { number, shape }]) => ({
      name: fieldName(name),
      number,
      ...typeOf(shape, names, `.${prefix}.${message}.${entryName(name)}`),
      oneofIndex: members.includes(name) ? 0 : undefined,
    })),
    nestedType: entries.filter(([, { shape }]) => shape.kind === "map").map(([name]) => ({
      name: entryName(name),
      field: ["key", "value"].map((name, i) => ({ name, number: i + 1, label: LABEL.optional, type: TYPES.text })),
      options: [{ mapEntry: true }],
    })),
    enumType: Object.entries(enumerations)
      .filter(([name]) => name.startsWith(`${message}.`))
      .map(([name, values]) => enumDescriptor([name.slice(message.length + 1), values])),
    oneofDecl: oneof === undefined ? [] : [{ name: oneof }],
  };
}

function typeOf(
  shape: FieldShape,
  names: ReadonlyMap<object, string>,
  entryName: string,
): { readonly label: number; readonly type: number; readonly typeName?: string } {
  switch (shape.kind) {
    case "list":
      return { ...typeOf(shape.of, names, entryName), label: LABEL.repeated };
    case "map":
      return { label: LABEL.repeated, type: TYPES.message, typeName: entryName };
    case "message":
      return { label: LABEL.optional, type: TYPES.message, typeName: names.get(shape.message) };
    case "number":
      if (shape.enumeration === undefined) return { label: LABEL.optional, type: TYPES.number };
      return { label: LABEL.optional, type: ENUM_TYPE, typeName: names.get(shape.enumeration) };
    default:
      return { label: LABEL.optional, type: TYPES[shape.kind] };
  }
}

function enumDescriptor([name, values]: readonly [string, Enumeration]): TypeOf<typeof ENUM> {
  return { name, value: Object.entries(values).map(([name, number]) => ({ name, number })) };
}
