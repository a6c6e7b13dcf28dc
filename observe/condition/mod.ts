/**
 * The condition `ServiceProxyReady` of this node's Node. Loaded only if the configuration asks for it.
 *
 * In: the proxy's health. Out: patches of the Node's status. May touch: the clock.
 */
export {
  CONDITION_TYPE,
  conditionOf,
  type NodeCondition,
  type NodeConditionOptions,
  startNodeCondition,
} from "./node_condition.ts";
