import { isJsonObject, stringifyJson, type JsonObject, type JsonValue } from '../../json/json.ts';
import { parseBody } from '../http/content-type.ts';
import { badRequest, invalid, type Cause } from '../../machinery/failure.ts';
import { items, optionalText, record, value } from '../../machinery/fields.ts';
import type { FieldValidation } from '../../machinery/objects/decode.ts';
import { forbiddenValue, requiredValue, tooLong, unsupportedValue } from '../../machinery/schema/causes.ts';
import type { ApiRequest } from './context.ts';

const FIELD_VALIDATIONS: readonly FieldValidation[] = ['', 'Ignore', 'Strict', 'Warn'];

export type WriteOptions = ReturnType<typeof writeOptionsOf>;

const GROUP = 'meta.k8s.io';

const isTrue = (text: string | null) => text === 'true' || text === '1';

/** @throws ApiFailure 422 like ValidateCreateOptions and its siblings (pkg/apis/meta/v1/validation of apimachinery) */
export function writeOptionsOf(
  query: URLSearchParams,
  kind: 'CreateOptions' | 'UpdateOptions' | 'PatchOptions',
  isApply = false,
) {
  const causes: Cause[] = [...dryRunProblems(query.getAll('dryRun'))];
  const fieldManager = query.get('fieldManager') ?? '';
  if (fieldManager.length > 128) causes.push(tooLong('fieldManager', 128));
  if (isApply && fieldManager === '')
    causes.push(requiredValue('fieldManager', 'is required for apply patch'));
  const force = isTrue(query.get('force'));
  if (force && !isApply) causes.push(forbiddenValue('force', 'may not be specified for non-apply patch'));
  const asked = query.get('fieldValidation') ?? '';
  const fieldValidation = FIELD_VALIDATIONS.find((known) => known === asked);
  if (fieldValidation === undefined)
    causes.push(unsupportedValue('fieldValidation', asked, FIELD_VALIDATIONS));
  if (causes.length > 0) throw invalid({ group: GROUP, kind }, '', causes);
  return {
    dryRun: query.has('dryRun'),
    fieldManager,
    fieldValidation: fieldValidation ?? '',
    /** Apply only: take over fields from other managers. */
    force,
  };
}

/** The options that webhooks receive. A patch has the options of the resulting create or update. */
export function optionsJson(kind: 'CreateOptions' | 'UpdateOptions', options: WriteOptions): JsonObject {
  return {
    kind,
    apiVersion: 'meta.k8s.io/v1',
    ...(options.dryRun ? { dryRun: ['All'] } : {}),
    ...(options.fieldManager === '' ? {} : { fieldManager: options.fieldManager }),
    ...(options.fieldValidation === '' ? {} : { fieldValidation: options.fieldValidation }),
  };
}

const dryRunProblems = (values: readonly JsonValue[]): readonly Cause[] =>
  values.every((asked) => asked === 'All') ? [] : [unsupportedValue('dryRun', values, ['All'])];

const POLICIES = ['Foreground', 'Background', 'Orphan'] as const;

export type Propagation = (typeof POLICIES)[number];

/** DeleteOptions from the body or the query. Like in the API server, the body wins. */
export interface DeleteOptions {
  readonly dryRun: boolean;
  readonly propagationPolicy: Propagation | undefined;
  readonly preconditions: {
    readonly uid?: string | undefined;
    readonly resourceVersion?: string | undefined;
  };
  /** The options that webhooks receive. */
  readonly json: JsonObject;
}

/** @throws ApiFailure 400 if the body is not DeleteOptions, 415 for an unsupported type, 422 if a value is out of range */
export function deleteOptionsOf({ query, body, contentType }: ApiRequest): DeleteOptions {
  const given = body.length === 0 ? optionsOfQuery(query) : optionsOfBody(parseBody(body, contentType));
  const dryRun = items(given, 'dryRun');
  const policy = value(given, 'propagationPolicy');
  const preconditions = record(given, 'preconditions') ?? {};
  const known = POLICIES.find((one) => one === policy);
  const causes: Cause[] = [...dryRunProblems(dryRun)];
  if (policy !== undefined && known === undefined)
    causes.push(unsupportedValue('propagationPolicy', policy, [...POLICIES, 'nil']));
  if (causes.length > 0) throw invalid({ group: GROUP, kind: 'DeleteOptions' }, '', causes);
  return {
    dryRun: dryRun.length > 0,
    propagationPolicy: known,
    preconditions: {
      uid: optionalText(preconditions, 'uid'),
      resourceVersion: optionalText(preconditions, 'resourceVersion'),
    },
    json: { ...given, kind: 'DeleteOptions', apiVersion: 'meta.k8s.io/v1' },
  };
}

function optionsOfQuery(query: URLSearchParams): JsonObject {
  const grace = query.get('gracePeriodSeconds');
  const policy = query.get('propagationPolicy');
  return {
    ...(query.has('dryRun') ? { dryRun: query.getAll('dryRun') } : {}),
    ...(grace === null ? {} : { gracePeriodSeconds: Number(grace) }),
    ...(policy === null ? {} : { propagationPolicy: policy }),
  };
}

function optionsOfBody(body: JsonValue): JsonObject {
  if (!isJsonObject(body)) throw badRequest("couldn't get version/kind; json parse error: not an object");
  const { kind } = body;
  if (kind !== undefined && kind !== 'DeleteOptions') {
    throw badRequest(`unable to decode body as DeleteOptions: got the kind ${stringifyJson(kind)}`);
  }
  return body;
}
