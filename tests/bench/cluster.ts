/** The cluster of all benchmarks: services with one TCP port and three endpoints, none of them on this node. */
import type { ServicePort } from "../../core/model/mod.ts";
import type { EndpointSlice } from "../../core/objects/cluster_object.ts";
import type { Service } from "../../core/objects/cluster_object.ts";
import { endpoint, endpointSlice, service } from "../fakes/cluster_objects.ts";
import { fakeServicePort } from "../fakes/service_port.ts";

/** Endpoints per service. */
export const ENDPOINTS = 3;

const SERVICES_PER_NAMESPACE = 100;

/** The name of a service: `namespace/name`. */
export function serviceName(index: number): string {
  return `team-${Math.floor(index / SERVICES_PER_NAMESPACE)}/svc-${index}`;
}

/** The cluster IP of a service, up to index 65,535. */
export function clusterIP(index: number): string {
  return `10.96.${index >> 8}.${index & 255}`;
}

/** The addresses of a service's endpoints. Every round has a different first address. */
export function endpointAddresses(index: number, round = 0): string[] {
  const first = index * ENDPOINTS;
  return Array.from({ length: ENDPOINTS }, (_, i) => {
    const network = i === 0 && round !== 0 ? 200 + round % 50 : 128 + ((first + i) >> 16);
    return `10.${network}.${((first + i) >> 8) & 255}.${(first + i) & 255}`;
  });
}

/** A decoded service. */
export function clusterService(index: number): Service {
  return service(serviceName(index), { clusterIPs: [clusterIP(index)] });
}

/** The decoded slice of a service. */
export function clusterSlice(index: number, round = 0): EndpointSlice {
  return endpointSlice(
    `${serviceName(index)}-a`,
    endpointAddresses(index, round).map((address) => endpoint(address)),
  );
}

/** The planned port of a service. */
export function clusterServicePort(index: number, round = 0): ServicePort {
  return fakeServicePort(`${serviceName(index)}:http`, {
    clusterIP: clusterIP(index),
    external: "reject",
    clusterEndpoints: endpointAddresses(index, round).map((address) => `${address}:8080`).sort(),
  });
}

/** One object for each of `size` services, cloned so that strings are flat as after decoding. */
export function forEachService<T>(size: number, make: (index: number) => T): T[] {
  return Array.from({ length: size }, (_, index) => structuredClone(make(index)));
}
