import assert from "node:assert/strict";
import fc from "fast-check";
import { createEndpointsTracker, endpointsOfSlices } from "../../core/tracking/endpoints_tracker.ts";
import type { EndpointSlice } from "../../core/objects/mod.ts";
import { endpoint, endpointSlice } from "../fakes/cluster_objects.ts";
import { runs } from "./runs.ts";

const few = <const T>(...values: readonly T[]) => fc.constantFrom(...values);

const PORTS: readonly EndpointSlice["ports"][] = [
  [{ name: "x", protocol: "tcp", port: 80 }],
  [{ name: "x", protocol: "tcp", port: 80 }, { name: "y", protocol: "udp", port: 53 }],
  [{ name: "x", protocol: "tcp", port: 81 }, { name: "x", protocol: "tcp", port: 80 }],
  [{ name: "y", protocol: "udp", port: 53 }],
];

/** An endpoint of a slice: `clash` may be one of another slice, too. */
const hosts = fc.record({
  host: fc.integer({ min: 1, max: 5 }),
  clash: few(false, false, false, false, false, false, false, true),
  terminating: fc.boolean(),
});

/** A new version of a slice, its deletion, or a look at the ports of a service. */
const steps = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      name: few("1", "2", "3", "4"),
      service: few("a", "a", "a", "b"),
      ports: fc.constantFrom(PORTS[0]!, PORTS[0]!, ...PORTS),
      endpoints: fc.array(hosts, { maxLength: 5 }),
    }).map(({ name, service, ports, endpoints }) =>
      endpointSlice(
        `default/${name}`,
        endpoints.map(({ host, clash, terminating }) =>
          endpoint(`10.1.${clash ? 0 : name}.${host}`, { terminating, ready: !terminating })
        ),
        { serviceName: service, ports },
      )
    ),
  },
  { weight: 1, arbitrary: few("1", "2", "3", "4") },
  { weight: 4, arbitrary: few({ x: true, y: true }, { x: true, y: false }) },
);

Deno.test("after any changes of slices, the endpoints of each port are as if all slices were joined for the first time", () => {
  fc.assert(
    fc.property(fc.array(steps, { minLength: 20, maxLength: 60 }), (history) => {
      const tracker = createEndpointsTracker(0), slices = new Map<string, EndpointSlice>();
      const look = ({ x, y }: { readonly x: boolean; readonly y: boolean }) => {
        for (const service of ["a", "b"]) {
          const ofService = [...slices.values()].filter(({ serviceName }) => serviceName === service)
            .sort((a, b) => a.name < b.name ? -1 : 1);
          for (const [name, protocol, looks] of [["x", "tcp", x], ["y", "udp", y]] as const) {
            if (!looks) continue;
            const expected = endpointsOfSlices(ofService, name, protocol);
            assert.deepEqual(tracker.endpointsOf(`default/${service}`, name, protocol), expected);
          }
        }
      };
      for (const step of history) {
        if (typeof step === "string") {
          slices.delete(step);
          tracker.delete(`default/${step}`);
        } else if ("x" in step) look(step);
        else {
          slices.set(step.name, step);
          tracker.set(`default/${step.name}`, step);
        }
      }
      look({ x: true, y: true });
    }),
    runs(300),
  );
});
