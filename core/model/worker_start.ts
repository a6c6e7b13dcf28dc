import { FAMILIES, type Level } from "../../platform/mod.ts";
import { COUNT, list, oneOf, optional, record, text, type TypeOf } from "../../platform/shapes/mod.ts";
import { IPVS_SETTINGS, PROXY_MODE } from "./family_settings.ts";

const KERNEL_SETTING = record({
  /** `net.netfilter.nf_conntrack_max`. */
  name: text(/./),
  value: COUNT,
  /** Whether to keep a greater value. */
  atLeast: optional(oneOf(true)),
  /** Whether not to warn if it cannot be written. */
  mayFail: optional(oneOf(true)),
});

/** A sysctl and its wanted value. */
export type KernelSetting = TypeOf<typeof KERNEL_SETTING>;

/** The start of a family's worker. */
export const WORKER_START = record({
  family: oneOf(...FAMILIES),
  mode: PROXY_MODE,
  /** Set only in ipvs mode. */
  ipvs: optional(IPVS_SETTINGS),
  logLevel: oneOf<Level>("error", "warn", "info", "debug", "trace"),
  logFormat: oneOf("text", "json"),
  /** The host-wide sysctls that this worker sets after its setup; empty if the other family's worker sets them. */
  kernel: list(KERNEL_SETTING),
  /** Whether the worker reports `ready` only after setting them. Serving never waits for them. */
  kernelFirst: optional(oneOf(true)),
});

/** See `WORKER_START`. */
export interface WorkerStart extends TypeOf<typeof WORKER_START> {}
