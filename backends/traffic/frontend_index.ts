import {
  frontendsOf,
  type Protocol,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
} from "../../core/model/mod.ts";
import { joinFlat } from "../../platform/mod.ts";

/** Finds the service port of a frontend. */
export interface FrontendIndex {
  /**
   * The service port that owns a frontend; undefined if none does.
   * @param address canonical; any address stands for a node port
   */
  find(address: string, protocol: Protocol, port: number | string): ServicePortKey | undefined;
}

/** Indexes the frontends of service ports. */
export function indexFrontends(servicePorts: Iterable<ServicePort>): FrontendIndex {
  const owners = new Map<string, ServicePortKey>();
  for (const servicePort of servicePorts) {
    const { name, protocol } = servicePort;
    const owner = servicePortKey(name, protocol);
    for (const { address, port } of frontendsOf(servicePort)) {
      owners.set(joinFlat(" ", address, protocol, port), owner);
    }
  }
  return {
    // A node port has no address of its own.
    find: (address, protocol, port) =>
      owners.get(`${address} ${protocol} ${port}`) ?? owners.get(` ${protocol} ${port}`),
  };
}
