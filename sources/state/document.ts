import { quote } from "../../core/objects/mod.ts";
import type { Field, Fields, FieldShape, Schema } from "../../kpng/codec/mod.ts";
import {
  ENDPOINT_INFO,
  type EndpointInfoMessage,
  NODE,
  type NodeMessage,
  SERVICE,
  type ServiceMessage,
} from "../../kpng/messages/mod.ts";
import type { TreeEntry, TreeNode } from "../../platform/mod.ts";

/** An error in a state file, for which KPNG would also refuse it. */
export class StateError extends Error {
  override readonly name = "StateError";
  /** `line` counts from 1. */
  constructor(message: string, readonly line: number) {
    super(message);
  }
}

/** A YAML syntax error in a state file. */
export class StateSyntaxError extends StateError {}

/** The form of a choice of messages (oneof) in a service in KPNG's YAML. */
const SESSION_AFFINITY: Schema = { fields: { clientIP: SERVICE.fields.clientIP! } };

/** The lists of a state file. */
export const SECTIONS = ["nodes", "services"] as const;
export type Section = typeof SECTIONS[number];

/** A message and its line in the state file, from 1. */
export interface Placed<T> {
  readonly line: number;
  readonly message: T;
}

/** An item of a state file. */
export type StateItem =
  | Placed<NodeMessage> & { readonly section: "nodes" }
  | Placed<ServiceMessage> & {
    readonly section: "services";
    readonly endpoints: readonly Placed<EndpointInfoMessage>[];
  };

/** Reads the items of an entire state file, which may be empty. Throws StateError for the first error; unknown fields are errors. */
export function readState(root: TreeNode | undefined): readonly StateItem[] {
  return root === undefined ? [] : entriesOf(root, "the state").flatMap(({ key, line, value }) => {
    const section = SECTIONS.find((section) => section === key);
    if (section === undefined) throw unknown(key, SECTIONS, "the state", line);
    return itemsOf(value, key).map((item) => readItem(section, item));
  });
}

/** Reads an item of a list. Throws StateError for the first error. */
export function readItem(section: Section, node: TreeNode): StateItem {
  if (section === "nodes") return { section, ...place<NodeMessage>(NODE, node, "a node") };
  let service: Placed<ServiceMessage> = { line: node.line, message: {} };
  let endpoints: readonly Placed<EndpointInfoMessage>[] = [];
  for (const { key, line, value } of entriesOf(node, "an item of services")) {
    if (key === "service") service = place(SERVICE, value, "a service");
    else if (key === "endpoints") {
      endpoints = itemsOf(value, key).map((item) => place<EndpointInfoMessage>(ENDPOINT_INFO, item, "an endpoint"));
    } else throw unknown(key, ["service", "endpoints"], "an item of services", line);
  }
  return { section, ...service, endpoints };
}

function place<T>(schema: Schema, node: TreeNode, where: string): Placed<T> {
  return { line: node.line, message: readMessage(schema, node, where) as T };
}

function readMessage(schema: Schema, node: TreeNode, where: string): Record<string, unknown> {
  const fields = writtenFields(schema);
  const message: Record<string, unknown> = {};
  for (const { key, line, value } of entriesOf(node, where)) {
    if (schema === SERVICE && key === "sessionaffinity") {
      Object.assign(message, readMessage(SESSION_AFFINITY, value, key));
      continue;
    }
    const found = fields.get(key);
    if (found === undefined) throw unknown(key, fields.keys(), where, line);
    if (!isNothing(value)) message[found.name] = readValue(found.field.shape, value, key);
  }
  return message;
}

function readValue(shape: FieldShape, node: TreeNode, where: string): unknown {
  if (shape.kind === "message") return readMessage(shape.message, node, where);
  if (shape.kind === "list") return itemsOf(node, where).map((item) => readValue(shape.of, item, where));
  if (shape.kind === "map") {
    return Object.fromEntries(entriesOf(node, where).map(({ key, value }) => [key, readText(value, key)]));
  }
  if (shape.kind === "text") return readText(node, where);
  if (shape.kind === "uint64") return readUint64(node, where);
  const value = node.kind === "scalar" ? node.value : undefined;
  if (shape.kind === "number" && Number.isSafeInteger(value)) return value;
  if (shape.kind === "boolean" && typeof value === "boolean") return value;
  throw new StateError(`${where} must be ${shape.kind === "number" ? "an integer" : "true or false"}`, node.line);
}

/** An unsigned integer of 64 bits, which only its source text holds exactly. */
function readUint64(node: TreeNode, where: string): bigint {
  const text = node.kind === "scalar" && typeof node.value === "number" ? node.source ?? String(node.value) : "";
  const value = /^(0|[1-9][0-9]{0,19})$/.test(text) ? BigInt(text) : undefined;
  if (value !== undefined && value < 2n ** 64n) return value;
  throw new StateError(`${where} must be an integer of 64 bits without a sign`, node.line);
}

function readText(node: TreeNode, where: string): string {
  if (isNothing(node)) return "";
  if (node.kind !== "scalar") throw new StateError(`${where} must be a string`, node.line);
  // A name like 8080 or true is a string, as written.
  return detached(typeof node.value === "string" ? node.value : node.source ?? String(node.value));
}

/** The shortest substring that V8 stores as a slice, which keeps the whole text in memory. */
const SHORTEST_SLICE = 13;

/** A copy of a substring that does not keep the file's text in memory. */
function detached(text: string): string {
  return text.length < SHORTEST_SLICE ? text : JSON.parse(JSON.stringify(text)) as string;
}

function isNothing(node: TreeNode): boolean {
  return node.kind === "scalar" && (node.value === null || node.value === undefined);
}

function entriesOf(node: TreeNode, where: string): readonly TreeEntry[] {
  if (isNothing(node)) return [];
  if (node.kind !== "map") throw new StateError(`${where} must be a mapping`, node.line);
  return node.entries;
}

function itemsOf(node: TreeNode, where: string): readonly TreeNode[] {
  if (isNothing(node)) return [];
  if (node.kind !== "list") throw new StateError(`${where} must be a list`, node.line);
  return node.items;
}

function unknown(name: string, known: Iterable<string>, where: string, line: number): StateError {
  return new StateError(`${where} has no field ${quote(name)}, only ${[...known].join(", ")}`, line);
}

/** Sluice's own fields have numbers from here on. They are not written, because KPNG refuses unknown ones. */
const OWN_FROM = 1001;

/** The fields that a state file can have, by their names in the file: Go's, in lower case. */
export function writtenFields(
  schema: Schema,
): ReadonlyMap<string, { readonly name: string; readonly field: Field<unknown> }> {
  const known = byLowerCase.get(schema.fields);
  if (known !== undefined) return known;
  const fields = new Map(
    Object.entries(schema.fields)
      .filter(([, { number }]) => number < OWN_FROM)
      .map(([name, field]) => [name.toLowerCase(), { name, field }]),
  );
  byLowerCase.set(schema.fields, fields);
  return fields;
}

const byLowerCase = new WeakMap<Fields, ReturnType<typeof writtenFields>>();
