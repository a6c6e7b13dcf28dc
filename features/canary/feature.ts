import { feature } from "../contract.ts";
import { CANARY_FIELDS, checkCanary } from "./options.ts";

/** Tries every few seconds whether packets of services flow (docs/health.md). */
export const canary = feature({
  name: "canary",
  fields: CANARY_FIELDS,
  flags: {
    "canary": [
      "canary.enabled",
      "Try every 2s whether packets of services flow, and answer 503 on /healthz while they do not.",
    ],
    "canary-ranges": ["canary.addressRanges", "The CIDRs of the canary's addresses, one of each family."],
  },
  problems: {
    "packets-not-flowing": {
      severity: "error",
      about: "IP family",
      title: "packets of services do not flow on this node, so /healthz answers 503",
      fix: "remove the cause that the detail names; docs/health.md lists what to look for if it names none",
      event: "PacketsNotFlowing",
    },
    "packets-dropped-by-others": {
      severity: "warning",
      about: "IP family",
      title: "a rule of another program drops packets of services or pods",
      fix: "remove the rule that the detail names, or accept the traffic before it (docs/health.md)",
    },
    "canary-unusable": {
      severity: "warning",
      about: "IP family",
      title: "the canary cannot run on this node, so Sluice does not know whether packets flow",
      fix: "do what the detail says: another canary.addressRanges, a route to it, or an address of the family",
    },
  },
  check: ({ canary }, _mode, { invalid }) => checkCanary(canary, invalid),
  isOn: ({ canary }) => canary.enabled,
  load: () => import("./start.ts"),
});
