import type { EndpointPort } from "./endpoint_slice.ts";
import { compact } from "../../platform/mod.ts";
import { isLabel, NAME_RULE } from "./names.ts";
import { isWholeNumber, listOf, type Problems } from "./problems.ts";
import { readProtocol } from "./protocol.ts";
import { isAbsent, quote, type RawObject, rawObject } from "./raw.ts";

/** The usable ports of a slice. One without a number would mean every port; kube-proxy leaves it out too. */
export function readEndpointPorts(value: unknown, problems: Problems): readonly EndpointPort[] {
  const ports: EndpointPort[] = [];
  listOf(value, "ports", problems).forEach((item, index) => {
    const port = readEndpointPort(rawObject(item), (what) => problems.add(`port ${index + 1} ${what}; it is left out`));
    if (port !== undefined) ports.push(port);
  });
  return compact(ports);
}

function readEndpointPort(raw: RawObject, problem: (what: string) => void): EndpointPort | undefined {
  const name = isAbsent(raw.name) ? "" : raw.name;
  if (name !== "" && !isLabel(name)) {
    problem(`has the name ${quote(name)}, which may only hold ${NAME_RULE}`);
    return undefined;
  }
  const called = name === "" ? "" : `(${quote(name)}) `;
  const protocol = readProtocol(raw.protocol);
  if (protocol === undefined) {
    problem(`${called}has the protocol ${quote(raw.protocol)} instead of TCP, UDP or SCTP`);
    return undefined;
  }
  if (isAbsent(raw.port)) {
    problem(`${called}has no port number`);
    return undefined;
  }
  if (!isWholeNumber(raw.port, 1, 65535)) {
    problem(`${called}has the port number ${quote(raw.port)}, which is not between 1 and 65535`);
    return undefined;
  }
  return { name, protocol, port: raw.port };
}
