import { CONNECTION_READING } from "../../core/model/mod.ts";
import { errorText } from "../../platform/mod.ts";
import * as shape from "../../platform/shapes/mod.ts";
import type { AnsweredCall } from "../contract.ts";

const ANSWER = shape.anyOf(CONNECTION_READING, shape.record({ failure: shape.TEXT }));

/** See `ANSWER`. */
export type ConnectionAnswer = shape.TypeOf<typeof ANSWER>;

/** Reads the open connections of the endpoints of services that ask for `least-connections`. */
export const readConnections: AnsweredCall<undefined, ConnectionAnswer> = {
  name: "readConnections",
  request: shape.NOTHING,
  checked: shape.ifValid(ANSWER),
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
