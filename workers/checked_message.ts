import type { ModeDescription } from "../backends/contract/mod.ts";
import { isWritten } from "../backends/host/mod.ts";
import { MODE_DESCRIPTIONS } from "../backends/mod.ts";
import { CALLS } from "./calls.ts";
import { TO_WORKER, type ToWorker } from "./protocol.ts";

/**
 * Creates the check of messages to a worker: it returns a message that is safe in a tool's arguments and input, and throws
 * for any other an error that names the invalid field.
 * @param modes the known modes
 */
export function createMessageCheck(modes: readonly ModeDescription[]): (message: unknown) => ToWorker {
  const names = new Set(modes.map(({ name }) => name));
  /** The field whose value the declaration of the message alone does not refuse; undefined if all are valid. */
  const unknown = (message: ToWorker): string | undefined => {
    switch (message.type) {
      case "start":
        return !names.has(message.mode) ? "mode" : message.kernel.every(isWritten) ? undefined : "kernel";
      case "sync": {
        const { settings } = message.delta;
        return settings === undefined || names.has(settings.mode) ? undefined : "delta";
      }
      case "call": {
        const call = CALLS.get(message.name);
        return call === undefined ? "name" : call.request.is(message.request) ? undefined : "request";
      }
    }
  };
  return (message) => {
    const type = (message as { readonly type?: unknown } | null)?.type;
    if (typeof type !== "string" || !Object.hasOwn(TO_WORKER, type)) throw new Error("message refused: unknown type");
    const shape = TO_WORKER[type as ToWorker["type"]];
    const wrong = shape.wrongField(message) ?? quoted(unknown(message as ToWorker));
    if (wrong !== undefined) throw new Error(`message refused: invalid field ${wrong} in a message of type ${type}`);
    // Its own copies of the same words would take 70 bytes of each service port.
    shape.share?.(message as never);
    return message as ToWorker;
  };
}

function quoted(name: string | undefined): string | undefined {
  return name && JSON.stringify(name);
}

/** Checks a message of this product's modes (see `createMessageCheck`). */
export const checkedMessage = createMessageCheck(MODE_DESCRIPTIONS);
