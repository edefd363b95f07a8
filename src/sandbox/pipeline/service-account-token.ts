import { placeOf } from '../../machinery/storage/stored.ts';
import { isJsonObject, ownValue, type JsonObject } from '../../json/json.ts';
import { ofJson, type ApiObject, timestamp } from '../../machinery/api-object.ts';
import { badRequest, conflict, invalid, notFound, type Cause } from '../../machinery/failure.ts';
import { builtInKind } from '../../machinery/kinds/built-in-kind.ts';
import { openObject } from '../../machinery/kinds/schema-builders.ts';
import { record, section, text, texts } from '../../machinery/fields.ts';
import type { ResourceRequest } from '../../machinery/request.ts';
import type { ResourceType } from '../../machinery/resource-type.ts';
import { invalidValue } from '../../machinery/schema/causes.ts';
import { objectAnswer, type Answer } from './answer.ts';
import type { Api, ApiRequest } from './context.ts';
import { optionsJson } from './create.ts';
import { objectBody } from './decode-body.ts';
import { writeOptionsOf } from './options.ts';

// Lifetimes of tokens in seconds: default, minimum and maximum.
const DEFAULT_LIFE_S = 3_600;
const SHORTEST_LIFE_S = 600;
const LONGEST_LIFE_S = 2 ** 32;

const TOKEN_REQUEST = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest' };

/** How admission sees a request for a token. */
const REVIEWED = builtInKind({
  ...{ ...TOKEN_REQUEST, resource: 'tokenrequests', namespaced: true },
  description: 'A request for a token.',
  fields: { spec: openObject({}), status: openObject({}) },
});

/** The default audience of a token. */
const AUDIENCE = 'https://kubernetes.default.svc';

/**
 * POST to `serviceaccounts/<name>/token`: a TokenRequest of authentication.k8s.io/v1.
 * @throws ApiFailure 404 if the account or the bound object does not exist, 422 for an invalid lifetime
 * @see kubernetes/pkg/registry/core/serviceaccount/storage/token.go
 */
export async function issueToken(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
): Promise<Answer> {
  const options = writeOptionsOf(request.query, 'CreateOptions');
  const { dryRun } = options;
  const body = objectBody(request, 'TokenRequest');
  const given = (isJsonObject(body) ? record(body, 'spec') : undefined) ?? {};
  const { name, namespace } = info;
  const asked = ofJson({ ...TOKEN_REQUEST, metadata: { name, namespace }, spec: given });
  const attributes = {
    operation: 'CREATE',
    ...{ type, shownAs: REVIEWED, subresource: 'token', namespace, name },
    ...{ user: request.user, dryRun, options: optionsJson('CreateOptions', options) },
  } as const;
  const mutated =
    (await api.admission.mutate({ ...attributes, object: asked }, (object) => object, request.notes)) ??
    asked;
  const spec = section(mutated, 'spec');
  const account = api.storage.get(placeOf(type), { namespace: info.namespace, name: info.name });
  if (account === undefined) throw notFound(type, info.name);
  const seconds = lifeOf(spec);
  await api.admission.validate({ ...attributes, object: mutated }, request.notes);
  refuseUnbound(api, info, spec);
  const audiences = texts(spec, 'audiences').length === 0 ? [AUDIENCE] : texts(spec, 'audiences');
  const token = dryRun ? '' : api.issueToken(info.namespace, info.name, account.metadata.uid ?? '', seconds);
  const answer = ofJson({
    ...TOKEN_REQUEST,
    metadata: { name: info.name, namespace: info.namespace, creationTimestamp: timestamp(api.now()) },
    spec: {
      ...spec,
      audiences,
      expirationSeconds: seconds,
      boundObjectRef: record(spec, 'boundObjectRef') ?? null,
    },
    status: { token, expirationTimestamp: timestamp(new Date(api.now().getTime() + seconds * 1_000)) },
  });
  return objectAnswer(type, answer, 201);
}

function lifeOf(spec: JsonObject): number {
  const asked = ownValue(spec, 'expirationSeconds') ?? DEFAULT_LIFE_S;
  if (typeof asked !== 'number') throw badRequest('spec.expirationSeconds is not a number');
  const refuse = (why: string): readonly Cause[] => [invalidValue('spec.expirationSeconds', asked, why)];
  const causes =
    asked < SHORTEST_LIFE_S
      ? refuse('may not specify a duration less than 10 minutes')
      : asked > LONGEST_LIFE_S
        ? refuse('may not specify a duration larger than 2^32 seconds')
        : [];
  if (causes.length > 0) throw invalid({ group: 'authentication.k8s.io', kind: 'TokenRequest' }, '', causes);
  return asked;
}

/** The kinds of objects that a token can be bound to. */
const BINDABLE = new Map([
  ['Pod', 'pods'],
  ['Secret', 'secrets'],
]);

/** @throws ApiFailure if the bound object does not exist or has another uid */
function refuseUnbound(
  { storage }: Api,
  { namespace, name: account }: ResourceRequest,
  spec: JsonObject,
): void {
  const reference = record(spec, 'boundObjectRef');
  if (reference === undefined) return;
  const [kind, apiVersion, name, uid] = ['kind', 'apiVersion', 'name', 'uid'].map((key) =>
    text(reference, key),
  );
  const resource = apiVersion === 'v1' ? BINDABLE.get(kind ?? '') : undefined;
  if (resource === undefined) {
    throw badRequest(
      `cannot bind token to object of type ${(apiVersion ?? '').replace(/^(?!.*\/)/, '/')}, Kind=${kind ?? ''}`,
    );
  }
  const place = { group: '', resource };
  const bound = storage.get(place, { namespace, name: name ?? '' });
  if (bound === undefined) throw notFound(place, name ?? '');
  refuseOtherAccount(bound, account);
  if (uid !== '' && uid !== bound.metadata.uid) {
    throw conflict(
      { group: '', resource: kind ?? '' },
      name ?? '',
      `the UID in the bound object reference (${uid ?? ''}) does not match the UID in record. The object might have been deleted and then recreated`,
    );
  }
}

function refuseOtherAccount(bound: ApiObject, account: string): void {
  if (bound.kind !== 'Pod') return;
  const own = isJsonObject(bound.spec) ? text(bound.spec, 'serviceAccountName') : '';
  if (own === account) return;
  throw badRequest(
    `cannot bind token for serviceaccount ${JSON.stringify(account)} to pod running with different serviceaccount name.`,
  );
}
