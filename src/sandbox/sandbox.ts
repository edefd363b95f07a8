import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:https';

import type { CelQuestion } from '../cel/library/authorizer.ts';
import { isJsonObject, type JsonObject } from '../json/json.ts';
import { toTimestamp } from '../json/kube-object.ts';
import type { ApiObject } from '../machinery/api-object.ts';
import { createReviews } from './auth/access-reviews.ts';
import { accountGroups, accountUsername, createTokens } from './auth/authenticate.ts';
import { bootstrapObjects } from './auth/bootstrap.ts';
import { createAuthorizer } from './auth/rbac.ts';
import { startControllers } from './controllers/control.ts';
import { createConverter } from '../machinery/crd/convert.ts';
import { DEFINITIONS } from '../machinery/crd/definition.ts';
import { definitionType } from '../machinery/crd/definition-type.ts';
import { createHandler, type AuditEvent } from './http/handler.ts';
import { builtInTypes } from '../machinery/kinds/built-in-types.ts';
import { eventAs } from '../machinery/kinds/core/event.ts';
import { createServiceAllocators } from '../machinery/kinds/services/service-allocation.ts';
import { createDefinedView } from '../machinery/objects/decode.ts';
import type { Api } from './pipeline/context.ts';
import { createRegistry } from '../machinery/registry.ts';
import type { UserInfo } from '../machinery/request.ts';
import { apiVersionOf, type ResourceRegistry, type ResourceType } from '../machinery/resource-type.ts';
import { createStorage } from '../machinery/storage/storage.ts';
import { type Storage, placeOf } from '../machinery/storage/stored.ts';
import { createAdmission } from '../machinery/webhooks/admission.ts';
import { createWebhookCaller } from './webhook-caller.ts';
import { clientConfigOf, type CallWebhook } from '../machinery/webhooks/hook.ts';

/** How long the API server waits for a conversion webhook, in milliseconds. */
const CONVERSION_TIMEOUT_MS = 30_000;

export interface SandboxOptions {
  /** 0: any free port. */
  readonly port?: number;
  /** PEM. */
  readonly tls: { readonly cert: string; readonly key: string };
  /** The users that may log in, by bearer token. */
  readonly users: ReadonlyMap<string, UserInfo>;
  readonly audit?: (event: AuditEvent) => void;
  /** Called with internal errors of the sandbox. */
  readonly onError: (error: unknown) => void;
}

/** Starts an in-memory Kubernetes API on loopback. @throws Error if the port is taken */
export async function startSandbox({ port = 0, tls, users, audit, onError }: SandboxOptions) {
  const storage = createStorage({ onWatcherError: onError });
  const caller = createWebhookCaller(storage);
  const { api, findUser } = assemble(storage, caller.call, users);
  populate(storage, api.registry);
  const handler = createHandler({ api, findUser, audit, onError });
  const server = createServer({ ...tls, keepAliveTimeout: 120_000, requestTimeout: 0 }, handler);
  const stopControllers = startControllers(api, onError);
  const stop = async () => {
    stopControllers();
    caller.close();
    await close(server);
  };
  try {
    return { port: await listen(server, port), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function assemble(storage: Storage, call: CallWebhook, users: ReadonlyMap<string, UserInfo>) {
  const now = () => new Date();
  const { issue, findUser } = createTokens(
    users,
    now,
    () => randomBytes(24).toString('hex'),
    (namespace, name) => {
      const account = storage.get({ group: '', resource: 'serviceaccounts' }, { namespace, name });
      return account?.metadata.deletionTimestamp === undefined ? account?.metadata.uid : undefined;
    },
  );
  const authorizer = createAuthorizer(storage);
  const types = builtInTypes(createReviews(authorizer, findUser), createServiceAllocators(storage));
  const registry = createRegistry([...types, definitionType], storage);
  const convert = createConversion(storage, call);
  const api: Api = {
    registry,
    storage,
    convert,
    admission: createAdmission({
      registry,
      storage,
      convert,
      call,
      newUid: randomUUID,
      authorizerOf: (user) => (question) => ({
        allowed: authorizer.authorize(subjectOf(question, user), question),
        reason: '',
      }),
    }),
    now,
    newUid: randomUUID,
    newSuffix: () => suffixOf(randomBytes(5)),
    issueToken: issue,
    authorizer,
  };
  return { api, findUser };
}

/** A question about a service account is not about the user of the request. */
const subjectOf = ({ serviceAccount: account }: CelQuestion, user: UserInfo): UserInfo =>
  account === undefined
    ? user
    : { username: accountUsername(account), groups: accountGroups(account.namespace) };

/** Converts custom resources according to their definition. Built-in kinds are stored in the served version. */
function createConversion(storage: Storage, call: CallWebhook): Api['convert'] {
  const convert = createConverter(async (client: JsonObject, review: JsonObject) => {
    const answer = await call(
      clientConfigOf(client),
      review,
      CONVERSION_TIMEOUT_MS,
      'kube-apiserver-conversion',
    );
    if (!isJsonObject(answer))
      throw new Error('the conversion webhook answered with JSON that is not an object');
    return answer;
  }, randomUUID);
  const asDefined = createDefinedView();
  return async (objects: readonly ApiObject[], type: ResourceType) => {
    const apiVersion = apiVersionOf(type);
    if (type.resource === 'events' && !type.custom) return objects.map((event) => eventAs(event, apiVersion));
    if (!type.custom) return objects;
    const definition = storage.get(DEFINITIONS, { namespace: '', name: `${type.resource}.${type.group}` });
    const converted = definition === undefined ? objects : await convert(objects, definition, apiVersion);
    return converted.map((object) => asDefined(object, type));
  };
}

/** Creates the namespaces, roles and bindings that every cluster starts with. */
function populate(storage: Storage, registry: ResourceRegistry): void {
  for (const object of bootstrapObjects(toTimestamp(new Date()), randomUUID)) {
    const type = registry.findKind(object.apiVersion, object.kind);
    if (type === undefined) throw new Error(`the sandbox does not serve the kind ${object.kind}`);
    storage.create(placeOf(type), object);
  }
}

/** The characters of generated names: no similar ones, and no vowels, so that no words result. */
const ALPHABET = 'bcdfghjklmnpqrstvwxz2456789';
const suffixOf = (bytes: Uint8Array) =>
  Array.from(bytes, (byte) => ALPHABET[byte % ALPHABET.length]).join('');

async function listen(server: Server, port: number): Promise<number> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return address === null || typeof address === 'string' ? port : address.port;
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => {
      resolve();
    });
    server.closeAllConnections();
  });
}
