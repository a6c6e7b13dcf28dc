/** Writes the .proto files of the served packages from the codec's schemas: `deno task proto`. */
import { type Enumeration, type FieldShape, type Schema } from "../kpng/codec/mod.ts";
import * as messages from "../kpng/messages/messages.ts";

interface ProtoPackage {
  readonly name: string;
  readonly imports: readonly string[];
  readonly request: string;
  readonly messages: Readonly<Record<string, Schema>>;
  readonly enumerations: Readonly<Record<string, Enumeration>>;
  /** The group of fields that exclude each other, by message. */
  readonly oneofs: Readonly<Record<string, { readonly name: string; readonly fields: readonly string[] }>>;
}

const LOCAL: ProtoPackage = {
  name: "localv1",
  imports: [],
  request: "WatchReq",
  messages: {
    WatchReq: messages.WATCH_REQUEST,
    OpItem: messages.OP_ITEM,
    EmptyOp: messages.EMPTY_OP,
    Ref: messages.REF,
    Value: messages.VALUE,
    Service: messages.SERVICE,
    IPFilter: messages.IP_FILTER,
    ServiceIPs: messages.SERVICE_IPS,
    Endpoint: messages.ENDPOINT,
    EndpointScopes: messages.ENDPOINT_SCOPES,
    EndpointDetails: messages.ENDPOINT_DETAILS,
    IPSet: messages.IP_SET,
    PortName: messages.PORT_NAME,
    PortMapping: messages.PORT_MAPPING,
    ClientIPAffinity: messages.CLIENT_IP_AFFINITY,
  },
  enumerations: { Set: messages.SETS, Protocol: messages.PROTOCOL_NUMBERS },
  oneofs: {
    OpItem: { name: "Op", fields: ["sync", "reset", "set", "delete"] },
    Service: { name: "SessionAffinity", fields: ["clientIP"] },
  },
};

const GLOBAL: ProtoPackage = {
  name: "globalv1",
  imports: ["localv1"],
  request: "GlobalWatchReq",
  messages: {
    ServiceInfo: messages.SERVICE_INFO,
    EndpointInfo: messages.ENDPOINT_INFO,
    EndpointConditions: messages.ENDPOINT_CONDITIONS,
    TopologyInfo: messages.TOPOLOGY_INFO,
    TopologyHints: messages.TOPOLOGY_HINTS,
    NodeInfo: messages.NODE_INFO,
    Node: messages.NODE,
    ServiceCIDR: messages.SERVICE_CIDR,
    GlobalWatchReq: messages.GLOBAL_WATCH_REQUEST,
  },
  enumerations: {},
  oneofs: {},
};

const SCALARS = {
  ...{ text: "string", double: "double", uint64: "uint64", boolean: "bool", bytes: "bytes", number: "int32" },
  map: "map<string, string>",
} as const;

/** KPNG's names: `ipFilters` is `IPFilters`. */
function inPascalCase(name: string): string {
  return name.replace(/^(ip|cidr)/, (start) => start.toUpperCase()).replace(/^./, (first) => first.toUpperCase());
}

function textOf(
  { name, imports, request, messages, enumerations, oneofs }: ProtoPackage,
  names: ReadonlyMap<object, string>,
): string {
  const typeName = (type: object) => names.get(type)!.replace(`${name}.`, "");
  const typeOf = (shape: FieldShape): string => {
    if (shape.kind === "list") return `repeated ${typeOf(shape.of)}`;
    if (shape.kind === "message") return typeName(shape.message);
    if (shape.kind === "number" && shape.enumeration) return typeName(shape.enumeration);
    return SCALARS[shape.kind];
  };
  const messageText = ([name, { fields }]: [string, Schema]) => {
    const lineOf = (field: string) => {
      const { number, shape } = fields[field]!;
      return `  ${typeOf(shape)} ${inPascalCase(field)} = ${number};\n`;
    };
    const { name: oneof, fields: members = [] } = oneofs[name] ?? {};
    const plain = Object.keys(fields).filter((field) => !members.includes(field)).map(lineOf).join("");
    const group = oneof && `  oneof ${oneof} {\n${members.map((field) => `  ${lineOf(field)}`).join("")}  }\n`;
    return `\nmessage ${name} {\n${plain}${group ?? ""}}\n`;
  };
  const enumText = ([name, values]: [string, Enumeration]) =>
    `\nenum ${name} {\n${Object.entries(values).map(([value, number]) => `  ${value} = ${number};\n`).join("")}}\n`;
  const operation = typeName(LOCAL.messages.OpItem!);
  const watch = `rpc Watch(stream ${request}) returns (stream ${operation});`;
  return [
    `// KPNG's package ${name}, with Sluice's own fields from number 1000.\nsyntax = "proto3";\n\npackage ${name};\n`,
    ...imports.map((one) => `\nimport "${one}.proto";\n`),
    `\nservice Sets {\n  ${watch}\n}\n`,
    ...Object.entries(messages).map(messageText),
    ...Object.entries(enumerations).map(enumText),
  ].join("");
}

/** The texts of the .proto files by their names. */
export function protoFiles(): Readonly<Record<string, string>> {
  const packages = [LOCAL, GLOBAL];
  const names = new Map<object, string>(
    packages.flatMap(({ name, messages, enumerations }) =>
      [...Object.entries(messages), ...Object.entries(enumerations)].map((
        [type, schema],
      ) => [schema, `${name}.${type}`])
    ),
  );
  return Object.fromEntries(packages.map((one) => [`${one.name}.proto`, textOf(one, names)]));
}

if (import.meta.main) {
  for (const [name, text] of Object.entries(protoFiles())) {
    Deno.writeTextFileSync(new URL(`../docs/proto/${name}`, import.meta.url), text);
  }
}
