import {
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node as YamlNode,
  parseDocument,
  type YAMLMap,
} from "yaml";
import { quote } from "../../objects/raw.ts";
import { writtenFields } from "../../wire/lower_case.ts";
import {
  ENDPOINT_INFO,
  type EndpointInfoMessage,
  NODE,
  type NodeMessage,
  SERVICE,
  type ServiceMessage,
} from "../../wire/messages.ts";
import type { FieldShape, Schema } from "../../wire/schema.ts";

/** A state file that KPNG would refuse, too. */
export class StateError extends Error {
  override readonly name = "StateError";
  /** `line` counts from 1. */
  constructor(message: string, readonly line: number) {
    super(message);
  }
}

/** Something that a state file holds, and the line at which it starts. */
export interface Placed<T> {
  readonly line: number;
  readonly message: T;
}

/** What a state file says. */
export interface StateDocument {
  readonly nodes: readonly Placed<NodeMessage>[];
  readonly services: readonly {
    readonly service: Placed<ServiceMessage>;
    readonly endpoints: readonly Placed<EndpointInfoMessage>[];
  }[];
}

/** Reads a state file. Throws StateError for its first mistake: fields that it does not have are mistakes. */
export function readStateDocument(text: string): StateDocument {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, logLevel: "silent", merge: true });
  const lineOf = (node: unknown) => {
    const start = (node as YamlNode | null | undefined)?.range?.[0];
    return start === undefined ? 1 : Math.max(1, lines.linePos(start).line);
  };
  const [mistake] = document.errors;
  if (mistake !== undefined) throw new StateError(mistake.message, lines.linePos(mistake.pos[0]).line);

  const resolve = (node: unknown): unknown => isAlias(node) ? node.resolve(document) : node;
  const nothing = (node: unknown) => node === null || node === undefined || (isScalar(node) && node.value === null);

  const entriesOf = (node: unknown, where: string): readonly (readonly [string, unknown, unknown])[] => {
    const map = resolve(node);
    if (nothing(map)) return [];
    if (!isMap(map)) throw new StateError(`${where} must be a mapping`, lineOf(node));
    return (map as YAMLMap).items.filter(isPair).map(({ key, value }) => {
      const name = isScalar(key) ? String(key.value) : "";
      return [name, value, key] as const;
    });
  };

  const itemsOf = (node: unknown, where: string): readonly unknown[] => {
    const list = resolve(node);
    if (nothing(list)) return [];
    if (!isSeq(list)) throw new StateError(`${where} must be a list`, lineOf(node));
    return list.items;
  };

  const unknown = (name: string, known: Iterable<string>, where: string, key: unknown) => (
    new StateError(`${where} has no field ${quote(name)}, but only ${[...known].join(", ")}`, lineOf(key))
  );

  const readMessage = (schema: Schema, node: unknown, where: string): Record<string, unknown> => {
    const fields = writtenFields(schema);
    const message: Record<string, unknown> = {};
    for (const [key, value, keyNode] of entriesOf(node, where)) {
      const found = fields.get(key);
      if (found === undefined) throw unknown(key, fields.keys(), where, keyNode);
      if (!nothing(value)) message[found.name] = readValue(found.field.shape, value, key);
    }
    return message;
  };

  const readValue = (shape: FieldShape, node: unknown, where: string): unknown => {
    if (shape.kind === "message") return readMessage(shape.message, node, where);
    if (shape.kind === "list") return itemsOf(node, where).map((item) => readValue(shape.of, item, where));
    if (shape.kind === "map") {
      return Object.fromEntries(entriesOf(node, where).map(([key, value]) => [key, readText(value, key)]));
    }
    const scalar = resolve(node);
    const value = isScalar(scalar) ? scalar.value : undefined;
    if (shape.kind === "text") return readText(node, where);
    if (shape.kind === "number" && Number.isSafeInteger(value)) return value;
    if (shape.kind === "boolean" && typeof value === "boolean") return value;
    throw new StateError(
      `${where} must be ${shape.kind === "number" ? "a whole number" : "true or false"}`,
      lineOf(node),
    );
  };

  const readText = (node: unknown, where: string): string => {
    const scalar = resolve(node);
    if (nothing(scalar)) return "";
    // A name like 8080 or true is a text all the same, as it stands there.
    if (isScalar(scalar)) {
      return typeof scalar.value === "string" ? scalar.value : scalar.source ?? String(scalar.value);
    }
    throw new StateError(`${where} must be a text`, lineOf(node));
  };

  const place = <T>(schema: Schema, node: unknown, where: string): Placed<T> => (
    { line: lineOf(node), message: readMessage(schema, node, where) as T }
  );

  const nodes: Placed<NodeMessage>[] = [];
  const services: StateDocument["services"][number][] = [];
  for (const [key, value, keyNode] of entriesOf(document.contents, "the state")) {
    if (key === "nodes") nodes.push(...itemsOf(value, key).map((item) => place<NodeMessage>(NODE, item, "a node")));
    else if (key === "services") services.push(...itemsOf(value, key).map(readService));
    else throw unknown(key, ["nodes", "services"], "the state", keyNode);
  }
  return { nodes, services };

  function readService(node: unknown): StateDocument["services"][number] {
    let service: Placed<ServiceMessage> = { line: lineOf(node), message: {} };
    let endpoints: readonly Placed<EndpointInfoMessage>[] = [];
    for (const [key, value, keyNode] of entriesOf(node, "an item of services")) {
      if (key === "service") service = place(SERVICE, value, "a service");
      else if (key === "endpoints") {
        endpoints = itemsOf(value, key).map((item) => place<EndpointInfoMessage>(ENDPOINT_INFO, item, "an endpoint"));
      } else throw unknown(key, ["service", "endpoints"], "an item of services", keyNode);
    }
    return { service, endpoints };
  }
}
