import { fileDescriptor, type ProtoFile, symbolsOf, type TypeOf } from "../codec/mod.ts";
import { PROTO_FILES, REFLECTION_REQUEST, REFLECTION_RESPONSE } from "../messages/mod.ts";
import { framesOf, STATUS } from "../transport/mod.ts";
import type { Call } from "./call.ts";

type Request = TypeOf<typeof REFLECTION_REQUEST>;
type Response = TypeOf<typeof REFLECTION_RESPONSE>;

/** Server reflection by the paths of its methods (gRPC: reflection.proto, versions v1 and v1alpha). */
export function reflectionMethods(): ReadonlyMap<string, (call: Call) => Promise<void>> {
  const answer = createReflection(PROTO_FILES);
  const serve = async (call: Call) => {
    const { next, write } = call.open(REFLECTION_REQUEST.decode);
    for (let request = await next(); request !== undefined; request = await next()) {
      await write(framesOf([REFLECTION_RESPONSE.encode(answer(request))]));
    }
  };
  return new Map(
    ["v1", "v1alpha"].map((version) => [`/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`, serve]),
  );
}

/** Answers questions about these files. */
function createReflection(files: readonly ProtoFile[]): (request: Request) => Response {
  const bySymbol = new Map(files.flatMap((file) => symbolsOf(file).map((symbol) => [symbol, file] as const)));
  const byName = new Map(files.map((file) => [file.name, file]));

  const error = (errorCode: number, errorMessage: string): Response => ({ errorResponse: { errorCode, errorMessage } });
  const fileResponse = (file: ProtoFile | undefined, asked: string): Response => {
    if (file === undefined) return error(STATUS.notFound, `${asked} not found`);
    return { fileDescriptorResponse: { fileDescriptorProto: [file, ...file.imports ?? []].map(fileDescriptor) } };
  };

  const answer = (request: Request): Response => {
    const { fileByFilename: name, fileContainingSymbol: symbol, allExtensionNumbersOfType: type } = request;
    if (request.listServices !== undefined) {
      const names = files.flatMap((file) => Object.keys(file.services).map((name) => `${file.package}.${name}`));
      return { listServicesResponse: { service: names.sort().map((name) => ({ name })) } };
    }
    if (name !== undefined) return fileResponse(byName.get(name), `file ${name}`);
    if (symbol !== undefined) return fileResponse(bySymbol.get(symbol), `symbol ${symbol}`);
    if (request.fileContainingExtension !== undefined) return error(STATUS.notFound, "there are no extensions");
    if (type === undefined) return error(STATUS.invalidArgument, "the request asks for nothing");
    if (!bySymbol.has(type)) return error(STATUS.notFound, `type ${type} not found`);
    return { allExtensionNumbersResponse: { baseTypeName: type } };
  };

  return (request) => ({ validHost: request.host, originalRequest: request, ...answer(request) });
}
