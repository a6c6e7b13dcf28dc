import type { StoreState } from "../../kpng/store/mod.ts";
import {
  annotateAffinity,
  ENDPOINT_INFO,
  endpointInfoMessage,
  endpointMessage,
  NODE,
  nodeMessage,
  podEndpoints,
  SERVICE,
  serviceMessage,
} from "../../kpng/messages/mod.ts";
import type { FieldShape, Schema } from "../../kpng/codec/mod.ts";
import { writtenFields } from "./document.ts";

/** Formats the state as a KPNG state file: YAML with one line per node, service and endpoint, for comparison by line. */
export function* writeStateFile({ services, scoped }: StoreState): Generator<string, void> {
  yield "nodes:\n";
  for (const object of scoped) {
    if (object.kind === "Node") yield `- ${JSON.stringify(inLowerCase(NODE, nodeMessage(object, false)))}\n`;
  }
  yield "services:\n";
  for (const state of services) {
    const { service, slices } = state;
    if (service === undefined || service.ignored) continue;
    const message = inLowerCase(SERVICE, annotateAffinity(serviceMessage(service, false)));
    yield `- service: ${JSON.stringify(message)}\n  endpoints:\n`;
    for (const one of podEndpoints(slices, true)) {
      // The service follows from the position in the file.
      const { podName, endpoint, conditions, topology, hints } = endpointInfoMessage(
        state,
        one,
        endpointMessage(one, service),
      );
      const info = inLowerCase(ENDPOINT_INFO, { podName, endpoint, conditions, topology, hints });
      yield `  - ${JSON.stringify(info)}\n`;
    }
  }
}

/** Converts a message to plain data with lower-case names; default values are omitted. */
function inLowerCase(schema: Schema, message: object): Record<string, unknown> {
  const written: Record<string, unknown> = {};
  for (const [lowerCase, { name, field }] of writtenFields(schema)) {
    const value = (message as Record<string, unknown>)[name];
    if (!isAbsence(field.shape, value)) written[lowerCase] = valueInLowerCase(field.shape, value);
  }
  return written;
}

function valueInLowerCase(shape: FieldShape, value: unknown): unknown {
  if (shape.kind === "message") return inLowerCase(shape.message, value as object);
  if (shape.kind === "list") return (value as readonly unknown[]).map((item) => valueInLowerCase(shape.of, item));
  return value;
}

function isAbsence({ kind }: FieldShape, value: unknown): boolean {
  if (value === undefined || value === "" || value === 0 || value === 0n || value === false) return true;
  return Array.isArray(value) ? value.length === 0 : kind === "map" && Object.keys(value as object).length === 0;
}
