import type { JsonObject } from '../../../json/json.ts';
import { records, spec, text } from '../../../machinery/fields.ts';
import { ApiFailure, badRequest, methodNotAllowed, notFound } from '../../../machinery/failure.ts';
import { builtInKind } from '../../../machinery/kinds/built-in-kind.ts';
import { BOOLEAN, INT32, listOf, STRING, STRINGS } from '../../../machinery/kinds/schema-builders.ts';
import type { ResourceType } from '../../../machinery/resource-type.ts';
import type { Schema } from '../../../machinery/schema/schema.ts';
import type { ApiObject } from '../../../machinery/api-object.ts';
import { placeOf } from '../../../machinery/storage/stored.ts';
import { attributesOf, mutated, type Call } from '../context.ts';

/** A subresource that opens a connection. The sandbox asks admission, and then has nothing to connect to. */
interface Connection {
  readonly optionsType: ResourceType;
  readonly optionsOf: (query: URLSearchParams, subpath: string) => JsonObject;
  /** Why there is no connection. */
  readonly problem: (target: ApiObject, options: ApiObject, asked: string) => ApiFailure;
  readonly anyMethod: boolean;
}

/** Its objects have no metadata, and are shown as they are. */
const optionsType = (kind: string, fields: Readonly<Record<string, Schema>>): ResourceType =>
  builtInKind({ apiVersion: 'v1', kind, resource: kind.toLowerCase(), description: kind, fields });

const STREAMS = { stdin: BOOLEAN, stdout: BOOLEAN, stderr: BOOLEAN, tty: BOOLEAN, container: STRING };

/** Fields with a value, as Go writes them. */
const present = (fields: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(fields).filter(
      ([, value]) => value !== false && value !== '' && !(Array.isArray(value) && value.length === 0),
    ),
  );

const streamsOf = (query: URLSearchParams) => ({
  ...Object.fromEntries(
    ['stdin', 'stdout', 'stderr', 'tty'].map((name) => [name, isTrue(query.get(name))] as const),
  ),
  container: query.get('container') ?? '',
});

const isTrue = (value: string | null): boolean => value !== null && !['false', '0'].includes(value);

/** In the words of k8s.io/kubernetes/pkg/registry/core/pod/strategy.go. */
function streamProblem(pod: ApiObject, options: ApiObject): ApiFailure {
  const namesIn = (list: string) => records(spec(pod), list).map((container) => text(container, 'name'));
  const own = namesIn('containers');
  const container = text(options, 'container');
  const { name = '' } = pod.metadata;
  const all = [...own, ...namesIn('initContainers'), ...namesIn('ephemeralContainers')];
  if (container !== '' && !all.includes(container))
    return badRequest(`container ${container} is not valid for pod ${name}`);
  if (container === '' && own.length > 1 && options.kind !== 'PodPortForwardOptions')
    return badRequest(
      `a container name must be specified for pod ${name}, choose one of: [${own.join(' ')}]`,
    );
  return text(spec(pod), 'nodeName') === ''
    ? badRequest(`pod ${name} does not have a host assigned`)
    : noBackend('the sandbox runs no pods');
}

const noBackend = (why: string) => new ApiFailure(500, 'InternalError', `error dialing backend: ${why}`);

const noEndpoints = (service: string) =>
  new ApiFailure(503, 'ServiceUnavailable', `no endpoints available for service ${JSON.stringify(service)}`);

const stream = (
  kind: string,
  fields: Readonly<Record<string, Schema>>,
  optionsOf: Connection['optionsOf'],
): Connection => ({
  optionsType: optionsType(kind, fields),
  optionsOf,
  problem: streamProblem,
  anyMethod: false,
});

const proxy = (kind: string, problem: Connection['problem']): Connection => ({
  optionsType: optionsType(kind, { path: STRING }),
  optionsOf: (_query, path) => ({ path }),
  problem,
  anyMethod: true,
});

const CONNECTIONS: ReadonlyMap<string, Connection> = new Map([
  [
    'pods/exec',
    stream('PodExecOptions', { ...STREAMS, command: STRINGS }, (query) => ({
      ...streamsOf(query),
      command: query.getAll('command'),
    })),
  ],
  ['pods/attach', stream('PodAttachOptions', STREAMS, streamsOf)],
  [
    'pods/portforward',
    stream('PodPortForwardOptions', { ports: listOf(INT32) }, (query) => ({
      ports: query.getAll('ports').map(Number).filter(Number.isInteger),
    })),
  ],
  ['pods/proxy', proxy('PodProxyOptions', () => badRequest('address not allowed'))],
  ['services/proxy', proxy('ServiceProxyOptions', (_service, _options, asked) => noEndpoints(asked))],
  ['nodes/proxy', proxy('NodeProxyOptions', () => noBackend('the sandbox runs no nodes'))],
]);

/** The connection that a subresource of the core group opens, such as `pods/exec`; undefined if it opens none. */
export const connectionOf = (path: string): Connection | undefined => CONNECTIONS.get(path);

/**
 * Asks admission about a CONNECT.
 * @throws ApiFailure always: the target does not exist, admission refuses, or there is nothing to connect to
 * @see ConnectResource of k8s.io/apiserver/pkg/endpoints/handlers
 */
export async function connect(
  call: Call,
  { optionsType: shownAs, optionsOf, problem, anyMethod }: Connection,
): Promise<never> {
  const { api, request, info, type } = call;
  if (!anyMethod && info.verb !== 'get' && info.verb !== 'create') throw methodNotAllowed();
  const subpath = info.path.split(`/${info.subresource}`).slice(1).join(`/${info.subresource}`);
  // Nothing reads the metadata of options.
  const asked = {
    apiVersion: 'v1',
    kind: shownAs.kind,
    ...present(optionsOf(request.query, subpath)),
  } as unknown as ApiObject;
  const attributes = {
    ...attributesOf(call, false),
    operation: 'CONNECT',
    shownAs,
    options: null,
  } as const;
  const options = await mutated(call, { ...attributes, object: asked }, (object) => object);
  await api.admission.validate({ ...attributes, object: options }, request.notes);
  const [name = ''] = type.resource === 'services' ? info.name.split(':') : [info.name];
  const target = api.storage.get(placeOf(type), { namespace: info.namespace, name });
  if (target === undefined) throw notFound(type, name);
  throw problem(target, options, info.name);
}
