import { type ConnectionReading, type EndpointConnections, isNothing } from "../../core/model/mod.ts";
import { ifValid, isCount, isText, optional, record } from "../../platform/checks/mod.ts";
import { errorText } from "../../platform/mod.ts";
import type { AnsweredCall } from "../contract.ts";

const areConnections = record<EndpointConnections>({ open: isCount, opened: isCount });

function areCounts(value: unknown): value is ReadonlyMap<string, EndpointConnections> {
  return value instanceof Map && value.entries().every(([endpoint, one]) => isText(endpoint) && areConnections(one));
}

/** A reading, or why there is none. */
export type ConnectionAnswer = ConnectionReading | { readonly failure: string };

const isReading = record<ConnectionReading>({ endpoints: optional(areCounts), durationMs: Number.isFinite });
const isFailure = record<{ readonly failure: string }>({ failure: isText });

/** Reads the open connections of the endpoints of services that ask for `least-connections`. */
export const readConnections: AnsweredCall<undefined, ConnectionAnswer> = {
  name: "readConnections",
  isRequest: isNothing,
  checked: ifValid((value): value is ConnectionAnswer => isReading(value) || isFailure(value)),
  async handle({ backend }) {
    try {
      return await backend.openConnections?.();
    } catch (error) {
      return { failure: errorText(error) };
    }
  },
  // The first reading may wait for a listing of conntrack.
  timeoutMs: 60_000,
};
