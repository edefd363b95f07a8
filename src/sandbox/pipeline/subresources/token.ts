import { isJsonObject } from '../../../json/json.ts';
import { toTimestamp } from '../../../json/kube-object.ts';
import { ofJson } from '../../../machinery/api-object.ts';
import { badRequest, methodNotAllowed } from '../../../machinery/failure.ts';
import { record, spec, texts, value } from '../../../machinery/fields.ts';
import { builtInKind } from '../../../machinery/kinds/built-in-kind.ts';
import { openObject } from '../../../machinery/kinds/schema-builders.ts';
import { AUDIENCE } from '../../auth/authenticate.ts';
import { objectBody } from '../../http/content-type.ts';
import { attributesOf, mutated, objectAnswer, storedObject, type Answer, type Call } from '../context.ts';
import { optionsJson, writeOptionsOf } from '../options.ts';

const TOKEN_REQUEST = builtInKind({
  apiVersion: 'authentication.k8s.io/v1',
  kind: 'TokenRequest',
  resource: 'tokenrequests',
  namespaced: true,
  description: 'A request for a token.',
  fields: { spec: openObject({}), status: openObject({}) },
});

const DEFAULT_LIFE_S = 3_600;

/** POST to `serviceaccounts/<name>/token`: a TokenRequest (serviceaccount/storage/token.go). */
export async function issueToken(call: Call): Promise<Answer> {
  const { api, request, info, type } = call;
  if (info.verb !== 'create') throw methodNotAllowed();
  const options = writeOptionsOf(request.query, 'CreateOptions');
  const body = objectBody(request, 'TokenRequest');
  const given = (isJsonObject(body) ? record(body, 'spec') : undefined) ?? {};
  const kind = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest' };
  const { name, namespace } = info;
  const asked = ofJson({ ...kind, metadata: { name, namespace }, spec: given });
  const attributes = {
    ...attributesOf(call, options.dryRun),
    operation: 'CREATE',
    shownAs: TOKEN_REQUEST,
    options: optionsJson('CreateOptions', options),
  } as const;
  const object = await mutated(call, { ...attributes, object: asked }, (next) => next);
  const account = storedObject(call);
  const wanted = spec(object);
  const seconds = value(wanted, 'expirationSeconds') ?? DEFAULT_LIFE_S;
  if (typeof seconds !== 'number') throw badRequest('spec.expirationSeconds is not a number');
  await api.admission.validate({ ...attributes, object }, request.notes);
  if (wanted.boundObjectRef !== undefined) throw badRequest('the sandbox cannot bind a token to an object');
  const audiences = texts(wanted, 'audiences').length === 0 ? [AUDIENCE] : texts(wanted, 'audiences');
  const token = options.dryRun ? '' : api.issueToken(namespace, name, account.metadata.uid ?? '', seconds);
  const now = api.now();
  const answer = ofJson({
    ...kind,
    metadata: { name, namespace, creationTimestamp: toTimestamp(now) },
    spec: {
      ...wanted,
      audiences,
      expirationSeconds: seconds,
      boundObjectRef: null,
    },
    status: { token, expirationTimestamp: toTimestamp(new Date(now.getTime() + seconds * 1_000)) },
  });
  return objectAnswer(type, answer, 201);
}
