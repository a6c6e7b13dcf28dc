import type { FamilySettings } from "../core/model/mod.ts";
import type { Destination } from "./frontend.ts";
import { wayThroughVirtualServers } from "./ipvs_way.ts";
import { wayThroughRules } from "./rules_way.ts";
import type { From, Way } from "./way.ts";

/**
 * What becomes of a new connection to a destination. Everything that could be decided before a packet comes is decided
 * by the planner and read off its service port; this adds what depends on where the packet comes from.
 */
export function wayTo(destination: Destination, from: From, settings: FamilySettings): Way {
  const { mode } = settings;
  return mode === "ipvs"
    ? wayThroughVirtualServers(destination, from, settings)
    : wayThroughRules(destination, from, { ...settings, mode });
}
