import assert from "node:assert/strict";
import { acceptedType } from "../../../../platform/http/mod.ts";

const PLAIN = { type: "text/plain", parameters: {} };
const V1 = { type: "application/json", parameters: { v: "v1", g: "config" } };
const OLD = { type: "application/json", parameters: { v: "v1alpha1", as: undefined } };
const OFFERED = [PLAIN, V1, OLD];

Deno.test("of the offered types, the one that the Accept header prefers is chosen", () => {
  const table: readonly (readonly [accept: string, typeof OFFERED[number] | undefined])[] = [
    ["", PLAIN],
    ["  ", PLAIN],
    ["*/*", PLAIN],
    ["text/*", PLAIN],
    ["TEXT/PLAIN", PLAIN],
    ["text/html", undefined],
    ["application/json", undefined],
    ["application/json;v=v1;g=config", V1],
    ['application/json; V="v1" ; g=config', V1],
    ["application/json;v=v1", undefined],
    ["application/*;v=v1alpha1", OLD],
    ["application/json;v=v1alpha1;as=List", undefined],
    ["application/json;v=v1;g=config;charset=utf-8", V1],
    // The first one wins unless another has a higher quality.
    ["application/json;v=v1alpha1,application/json;v=v1;g=config", OLD],
    ["application/json;v=v1alpha1;q=0.5,application/json;v=v1;g=config;q=0.8", V1],
    ["application/json;v=v1alpha1;q=0.5,text/plain", PLAIN],
    ["application/json;v=v1alpha1;q=nonsense,text/plain;q=0.1", PLAIN],
    ["text/html,application/json;v=v1alpha1;q=0.1", OLD],
  ];
  for (const [accept, chosen] of table) assert.equal(acceptedType(accept, OFFERED), chosen, accept);
});
