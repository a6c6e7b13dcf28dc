import type { StoreState } from "../../kpng/store/mod.ts";
import {
  annotateAffinity,
  ENDPOINT_INFO,
  endpointInfoMessage,
  endpointMessage,
  NODE,
  nodeMessage,
  podEndpoints,
  SERVICE,
  serviceMessage,
} from "../../kpng/messages/mod.ts";
import { inLowerCase } from "../../kpng/codec/mod.ts";

/** Formats the state as a KPNG state file: YAML with one line per node, service and endpoint, for comparison by line. */
export function* writeStateFile({ services, scoped }: StoreState): Generator<string, void> {
  yield "nodes:\n";
  for (const object of scoped) {
    if (object.kind === "Node") yield `- ${JSON.stringify(inLowerCase(NODE, nodeMessage(object, false)))}\n`;
  }
  yield "services:\n";
  for (const state of services) {
    const { service, slices } = state;
    if (service === undefined || service.ignored) continue;
    yield `- service: ${
      JSON.stringify(inLowerCase(SERVICE, annotateAffinity(serviceMessage(service))))
    }\n  endpoints:\n`;
    for (const one of podEndpoints(slices, true)) {
      // The service follows from the position in the file.
      const { podName, endpoint, conditions, topology, hints } = endpointInfoMessage(
        state,
        one,
        endpointMessage(one, service),
      );
      const info = inLowerCase(ENDPOINT_INFO, { podName, endpoint, conditions, topology, hints });
      yield `  - ${JSON.stringify(info)}\n`;
    }
  }
}
