import { isJsonObject, ownValue, parseJson, type JsonValue } from '../../../json/json.ts';
import { badRequest, expired, type ApiFailure } from '../failure.ts';

/** The position of the next page of a list. */
export interface Continuation {
  /** The revision whose state the list shows; `latest` after the client accepted an inconsistent list. */
  readonly revision: number | 'latest';
  /**
   * The first possible key of the page, relative to the listed scope: `namespace/name`, or `name` within a namespace.
   */
  readonly start: string;
}

// The layout follows k8s.io/apiserver/pkg/storage/continue.go, so that tokens look as in a real cluster. Clients
// treat them as opaque.
const VERSION = 'meta.k8s.io/v1';
const LATEST = -1;

export function writeContinueToken({ revision, start }: Continuation): string {
  const token = { v: VERSION, rv: revision === 'latest' ? LATEST : revision, start };
  return Buffer.from(JSON.stringify(token)).toString('base64url');
}

/** @throws ApiFailure 400 if the token is invalid */
export function readContinueToken(text: string): Continuation {
  const token = parseToken(text);
  if (!isJsonObject(token)) throw refuse('not a token');
  const version = ownValue(token, 'v') ?? '';
  if (version !== VERSION) {
    throw refuse(`server does not recognize this encoded version ${JSON.stringify(version)}`);
  }
  const revision = ownValue(token, 'rv');
  const start = ownValue(token, 'start');
  if (
    typeof revision !== 'number' ||
    !Number.isSafeInteger(revision) ||
    revision < LATEST ||
    revision === 0
  ) {
    throw refuse(`incorrect encoded start resourceVersion (version ${VERSION})`);
  }
  if (typeof start !== 'string' || start === '') throw refuse(`encoded start key empty (version ${VERSION})`);
  return { revision: revision === LATEST ? 'latest' : revision, start };
}

const refuse = (why: string) => badRequest(`invalid continue token: continue key is not valid: ${why}`);

function parseToken(text: string): JsonValue {
  const foreign = text.search(/[^A-Za-z0-9_-]/);
  if (foreign >= 0) throw refuse(`illegal base64 data at input byte ${foreign}`);
  try {
    return parseJson(Buffer.from(text, 'base64url').toString());
  } catch {
    return null;
  }
}

/**
 * 410 for a page whose revision has been compacted. It offers a token that continues with the current state.
 * @param start as in {@link Continuation}
 * @see k8s.io/apiserver/pkg/storage/etcd3/errors.go for the message
 */
export function continueExpired(start: string): ApiFailure {
  const failure = expired(
    'The provided continue parameter is too old to display a consistent list result. You can start a new list without ' +
      'the continue parameter, or use the continue token in this response to retrieve the remainder of the results. ' +
      'Continuing with the provided token results in an inconsistent list - objects that were created, modified, or ' +
      'deleted between the time the first chunk was returned and now may show up in the list.',
  );
  const metadata = { continue: writeContinueToken({ revision: 'latest', start }) };
  return Object.assign(failure, { status: { ...failure.status, metadata } });
}
