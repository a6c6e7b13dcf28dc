import type { StartMessage } from "../../workers/protocol.ts";

/** The first message to a worker of a family in iptables mode that logs nothing but errors. */
export const FAMILY_START: StartMessage = {
  type: "start",
  family: "IPv4",
  mode: "iptables",
  logLevel: "error",
  logFormat: "text",
  kernel: [],
};
