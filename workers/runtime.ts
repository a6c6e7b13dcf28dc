/** The entry of the worker that asks the container runtime; the main isolate may not connect to its socket. */
import type { PodReport } from "../core/objects/mod.ts";
import { watchPods } from "./cri/mod.ts";
import { systemClock } from "../platform/mod.ts";
import { ownScope } from "./web_worker.ts";

const scope = ownScope<string, PodReport>();

/** The only message is the path of the socket. Other sockets are outside of this worker's permissions. */
scope.onmessage = ({ data: path }) => {
  scope.onmessage = null;
  watchPods(path, systemClock, (report) => scope.postMessage(report));
};
