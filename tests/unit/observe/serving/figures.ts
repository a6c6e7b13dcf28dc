import type { ServingFigures } from "../../../../kpng/server/mod.ts";

/** The figures of a server that has just started. */
export const NO_TRAFFIC: ServingFigures = {
  watchers: { global: 0, local: 0 },
  rounds: { global: 0, local: 0 },
  bytes: { global: 0, local: 0 },
  connections: 0,
  closed: new Map(),
  slowReaders: 0,
  refusedWatchers: 0,
};
