import { backendTools } from "../backends/mod.ts";
import { C_LIBRARIES } from "../backends/tools/mod.ts";
import {
  describeRules,
  type PacketCounts,
  readPacketCounts,
  readTraffic,
  type RuleDescription,
  type ServicePortKey,
  type TrafficReading,
} from "../core/model/mod.ts";
import { FEATURE_CALLS } from "../features/calls.ts";
import type { AnsweredCall } from "../features/mod.ts";
import type { Family } from "../platform/mod.ts";
import type { WorkerCode } from "./protocol.ts";
import { workerEntry } from "./web_worker.ts";

const describe: AnsweredCall<ServicePortKey, RuleDescription> = {
  ...describeRules,
  handle: ({ backend }, key) => backend.describe?.(key),
};

const packetCounts: AnsweredCall<undefined, PacketCounts> = {
  ...readPacketCounts,
  handle: ({ backend }) => backend.packetCounts?.(),
};

/** Whether a reading of traffic is in progress; a concurrent one would count the same traffic twice. */
let isReadingTraffic = false;

const traffic: AnsweredCall<undefined, TrafficReading> = {
  ...readTraffic,
  async handle({ backend }) {
    if (isReadingTraffic) return undefined;
    isReadingTraffic = true;
    try {
      return await backend.readTraffic?.();
    } finally {
      isReadingTraffic = false;
    }
  },
};

/** The calls that a family's worker answers, by name: those of every proxy, and those of features. */
export const CALLS: ReadonlyMap<string, AnsweredCall> = new Map(
  [describe, packetCounts, traffic, ...FEATURE_CALLS].map((call) => [call.name, call]),
);

/** The code and the tools of a family's worker. */
export function familyCode(family: Family): WorkerCode {
  const ofCalls = [...CALLS.values()].flatMap(({ tools = [] }) => tools);
  return {
    entry: workerEntry("family"),
    name: `sluice-${family}`,
    tools: [...backendTools(), ...ofCalls],
    libraries: C_LIBRARIES,
  };
}
