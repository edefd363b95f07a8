import { isJsonObject, ownValue } from '../../admission/json.ts';
import { ofJson } from '../api-object.ts';
import { parseBody } from '../content-type.ts';
import { notFound } from '../failure.ts';
import type { ResourceRequest } from '../request.ts';
import type { ResourceType } from '../resource-type.ts';
import { objectAnswer, type Answer } from './answer.ts';
import { placeOf, timestamp, type Api, type ApiRequest } from './context.ts';

/** As long as a token lives when nobody says otherwise: an hour, in seconds. */
const DEFAULT_LIFE_S = 3_600;

/** POST to `serviceaccounts/<name>/token`: a TokenRequest of authentication.k8s.io/v1. */
export function issueToken(api: Api, request: ApiRequest, info: ResourceRequest, type: ResourceType): Answer {
  const account = api.storage.get(placeOf(type), { namespace: info.namespace, name: info.name });
  if (account === undefined) throw notFound(type, info.name);
  const body = parseBody(request.body, request.contentType);
  const spec = isJsonObject(body) ? ownValue(body, 'spec') : undefined;
  const asked = isJsonObject(spec) ? ownValue(spec, 'expirationSeconds') : undefined;
  const seconds = typeof asked === 'number' ? asked : DEFAULT_LIFE_S;
  const token = api.issueToken(info.namespace, info.name, account.metadata.uid ?? '', seconds);
  const answer = ofJson({
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    metadata: { name: info.name, namespace: info.namespace, creationTimestamp: timestamp(api.now()) },
    spec: isJsonObject(spec) ? { ...spec, expirationSeconds: seconds } : { expirationSeconds: seconds },
    status: { token, expirationTimestamp: timestamp(new Date(api.now().getTime() + seconds * 1_000)) },
  });
  return objectAnswer(type, answer, 201);
}
