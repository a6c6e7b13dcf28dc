import type { EndpointSlice, Service } from "../../core/objects/mod.ts";
import { FAMILIES, sameData } from "../../platform/mod.ts";
import { sameSlice } from "../../core/tracking/mod.ts";

/** The state of one service; immutable. */
export interface ServiceState {
  readonly namespace: string;
  readonly name: string;
  /** Undefined if there are only slices. */
  readonly service: Service | undefined;
  /** Sorted by family and name. */
  readonly slices: readonly EndpointSlice[];
}

/** The state with this service; undefined if it is empty. */
export function withService(state: ServiceState, service: Service | undefined): ServiceState | undefined {
  return service === undefined && state.slices.length === 0 ? undefined : { ...state, service };
}

/** The state with this slice added or replaced. */
export function withSlice(state: ServiceState, slice: EndpointSlice): ServiceState {
  const others = state.slices.filter(({ name }) => name !== slice.name);
  const position = others.findIndex((other) => isBefore(slice, other));
  return { ...state, slices: others.toSpliced(position === -1 ? others.length : position, 0, slice) };
}

function isBefore(one: EndpointSlice, other: EndpointSlice): boolean {
  return one.family === other.family ? one.name < other.name : one.family === FAMILIES[0];
}

/** The state without a slice; undefined if it is empty. */
export function withoutSlice(state: ServiceState, name: string): ServiceState | undefined {
  const slices = state.slices.filter((slice) => slice.name !== name);
  return state.service === undefined && slices.length === 0 ? undefined : { ...state, slices };
}

/** Whether two states are equal. */
export function sameState(a: ServiceState | undefined, b: ServiceState | undefined): boolean {
  if (a === b) return true;
  if (a === undefined || b === undefined || a.slices.length !== b.slices.length) return false;
  if (a.service !== b.service && !sameData(a.service, b.service)) return false;
  return a.slices.every((slice, i) => slice === b.slices[i] || sameSlice(slice, b.slices[i]!));
}

/** An estimate of a state's memory: the number of its objects and endpoints. */
export function weightOf({ slices }: ServiceState): number {
  return slices.reduce((sum, { endpoints }) => sum + 1 + endpoints.length, 1);
}
