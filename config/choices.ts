/** The settings whose value is one of a few words, and those words. */
import type { ProxyMode } from "../core/model/mod.ts";
import type { LocalMode, LoggingFormat } from "./configuration.ts";

/** The proxy modes that kube-proxy has on Linux; the first is the default. */
export const PROXY_MODES: readonly ProxyMode[] = ["iptables", "nftables", "ipvs"];

/** The ways to tell this node's pods; the first is the default. */
export const LOCAL_MODES: readonly LocalMode[] = ["ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"];

/** The forms of log lines. */
export const LOGGING_FORMATS: readonly LoggingFormat[] = ["text", "json"];
