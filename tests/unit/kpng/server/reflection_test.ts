import assert from "node:assert/strict";
import { connect as connectHttp2 } from "node:http2";
import { REFLECTION_REQUEST, REFLECTION_RESPONSE } from "../../../../kpng/messages/service_messages.ts";
import { createFrameReader, framesOf } from "../../../../kpng/transport/frames.ts";
import { STATUS } from "../../../../kpng/transport/status.ts";
import type { TypeOf } from "../../../../kpng/codec/schema.ts";
import { withServer } from "./served.ts";

type Request = TypeOf<typeof REFLECTION_REQUEST>;

/** The answers to these questions in one call; the status is the last element. */
async function ask(port: number, requests: readonly Request[], version = "v1") {
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  const stream = session.request({
    ":method": "POST",
    ":path": `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
    "content-type": "application/grpc",
  });
  const frames = createFrameReader(1 << 20);
  const answers: TypeOf<typeof REFLECTION_RESPONSE>[] = [];
  stream.on("data", (bytes: Uint8Array) => {
    answers.push(...frames.push(bytes).map((message) => REFLECTION_RESPONSE.decode(message)));
  });
  const ended = Promise.withResolvers<unknown>();
  stream.on("trailers", (headers) => ended.resolve(headers["grpc-status"]));
  stream.end(framesOf(requests.map((request) => REFLECTION_REQUEST.encode(request))));
  assert.equal(await ended.promise, "0");
  session.destroy();
  return answers;
}

/** The name and the package at the start of a file's descriptor. */
const beginning = (bytes: Uint8Array) => new TextDecoder().decode(bytes.subarray(2, 2 + bytes[1]!));

for (const version of ["v1", "v1alpha"]) {
  Deno.test(`reflection ${version} lists the services`, async () => {
    await withServer([], async ({ port }) => {
      const [answer] = await ask(port, [{ host: "h", listServices: "*" }], version);
      assert.deepEqual(answer, {
        validHost: "h",
        originalRequest: { host: "h", listServices: "*" },
        listServicesResponse: {
          service: [
            { name: "globalv1.Sets" },
            { name: "grpc.health.v1.Health" },
            { name: "grpc.reflection.v1.ServerReflection" },
            { name: "grpc.reflection.v1alpha.ServerReflection" },
            { name: "localv1.Sets" },
          ],
        },
      });
    });
  });
}

Deno.test("reflection finds files by name and by symbol, with what they import", async () => {
  const symbols = {
    "localv1.Sets": ["api/localv1/api.proto"],
    "localv1.Sets.Watch": ["api/localv1/api.proto"],
    "localv1.Protocol": ["api/localv1/api.proto"],
    "globalv1.ServiceInfo": ["api/globalv1/api.proto", "api/localv1/api.proto"],
    "grpc.health.v1.HealthCheckResponse.ServingStatus": ["grpc/health/v1/health.proto"],
    "grpc.reflection.v1.ErrorResponse": ["grpc/reflection/v1/reflection.proto"],
    "grpc.reflection.v1alpha.ErrorResponse": ["grpc/reflection/v1alpha/reflection.proto"],
  };
  await withServer([], async ({ port }) => {
    const requests = [
      ...Object.keys(symbols).map((symbol) => ({ fileContainingSymbol: symbol })),
      { fileByFilename: "api/globalv1/api.proto" },
    ];
    const answers = await ask(port, requests);
    assert.deepEqual(
      answers.map(({ fileDescriptorResponse }) => fileDescriptorResponse!.fileDescriptorProto!.map(beginning)),
      [...Object.values(symbols), ["api/globalv1/api.proto", "api/localv1/api.proto"]],
    );
  });
});

Deno.test("reflection says what it does not have", async () => {
  await withServer([], async ({ port }) => {
    const answers = await ask(port, [
      { fileByFilename: "x.proto" },
      { fileContainingSymbol: "localv1.X" },
      { fileContainingExtension: { containingType: "localv1.Service", extensionNumber: 1 } },
      { allExtensionNumbersOfType: "localv1.X" },
      {},
    ]);
    const { notFound, invalidArgument } = STATUS;
    assert.deepEqual(
      answers.map(({ errorResponse }) => errorResponse?.errorCode),
      [notFound, notFound, notFound, notFound, invalidArgument],
    );
    const [answer] = await ask(port, [{ allExtensionNumbersOfType: "localv1.Service" }]);
    assert.deepEqual(answer!.allExtensionNumbersResponse, { baseTypeName: "localv1.Service" });
  });
});
