import type { Configuration } from "../config/mod.ts";
import type { NodeCondition, NodeConditionOptions } from "../observe/condition/mod.ts";

/** Options of `writeNodeCondition`. */
export interface WriteNodeConditionOptions extends Omit<NodeConditionOptions, "nodeName" | keyof ConditionApi> {
  readonly configuration: Pick<Configuration, "nodeCondition" | "nodeName">;
  /** Undefined without an API server, whose Nodes have conditions. */
  readonly api: ConditionApi | undefined;
}

type ConditionApi = Pick<NodeConditionOptions, "send" | "readNode" | "isRefusal">;

/** Starts writing the condition of this node's Node; undefined unless the configuration and the source have one. */
export async function writeNodeCondition(options: WriteNodeConditionOptions): Promise<NodeCondition | undefined> {
  const { configuration: { nodeCondition, nodeName }, api, logger } = options;
  if (!nodeCondition) return undefined;
  if (api === undefined) {
    logger.warn("nodeCondition has no effect: only an API server as the source has Nodes with conditions");
    return undefined;
  }
  const { startNodeCondition } = await import("../observe/condition/mod.ts");
  return startNodeCondition({ ...options, ...api, nodeName });
}
