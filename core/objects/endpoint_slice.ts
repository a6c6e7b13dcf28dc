import type { Family } from "../../platform/mod.ts";
import type { Protocol } from "../model/mod.ts";
import type { EndpointDetails, SliceOrigin } from "./details.ts";

/** A Kubernetes EndpointSlice, reduced to what load balancing needs; addresses canonical. */
export interface EndpointSlice {
  readonly kind: "EndpointSlice";
  readonly namespace: string;
  readonly name: string;
  /** The service it belongs to, from the label `kubernetes.io/service-name`. */
  readonly serviceName: string;
  readonly family: Family;
  readonly ports: readonly EndpointPort[];
  readonly endpoints: readonly SliceEndpoint[];
  /**
   * When the change that this version carries was triggered (annotation
   * `endpoints.kubernetes.io/last-change-trigger-time`), in milliseconds since 1970; 0 where it is not told.
   */
  readonly triggerTimeMs: number;
  readonly origin?: SliceOrigin;
}

/** One port that every endpoint of a slice serves. */
export interface EndpointPort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
}

/** One endpoint of a slice. */
export interface SliceEndpoint {
  readonly address: string;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  /** Empty where it is not told. */
  readonly nodeName: string;
  readonly zone: string;
  /** The zones whose nodes should use it; undefined where there is no hint. */
  readonly zoneHints: readonly string[] | undefined;
  /** The nodes that should use it; undefined where there is no hint. */
  readonly nodeHints: readonly string[] | undefined;
  readonly details?: EndpointDetails;
}
