import { decodeObject } from "../../core/objects/decode.ts";
import type { ClusterObject } from "../../core/objects/cluster_object.ts";
import { createItemScanner } from "../../sources/kubernetes/list.ts";
import { listResponse, sliceText } from "./api_text.ts";
import type { Stage } from "./stage.ts";

const KINDS = ["Service", "EndpointSlice"] as const;

/** The typical size of one read of a response body. */
const CHUNK_BYTES = 65_536;

/** Decodes the bytes of list responses; a change is one watch event. */
export const decodeStage: Stage<ClusterObject[]> = {
  name: "decode",
  prepare(size) {
    const responses = KINDS.map((kind) => ({ kind, bytes: listResponse(kind, size) }));
    return {
      fill() {
        const objects: ClusterObject[] = [];
        for (const { kind, bytes } of responses) {
          const scanner = createItemScanner((item) => {
            const { object } = decodeObject(kind, item);
            if (object !== undefined) objects.push(object);
          });
          for (let at = 0; at < bytes.length; at += CHUNK_BYTES) scanner.push(bytes.subarray(at, at + CHUNK_BYTES));
          scanner.end();
        }
        return objects;
      },
      change(_objects, index, round) {
        const text = sliceText(index, round);
        return () => decodeObject("EndpointSlice", JSON.parse(text));
      },
    };
  },
};
