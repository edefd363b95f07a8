import { isJsonObject, ownValue, stringifyJson, type JsonObject, type JsonValue } from '../../json/json.ts';
import { parseBody } from '../http/content-type.ts';
import { badRequest, invalid, type Cause } from '../../machinery/failure.ts';
import type { FieldValidation } from '../../machinery/objects/decode.ts';
import type { ApiRequest } from './context.ts';

const FIELD_VALIDATIONS: readonly FieldValidation[] = ['', 'Ignore', 'Strict', 'Warn'];

/** The query parameters of a write. */
export interface WriteOptions {
  readonly dryRun: boolean;
  readonly fieldManager: string;
  readonly fieldValidation: FieldValidation;
  /** Apply only: take over fields from other managers. */
  readonly force: boolean;
}

const GROUP = { group: 'meta.k8s.io', kind: '' };

/**
 * @throws ApiFailure 422 as ValidateCreateOptions and its siblings do
 *   (k8s.io/apimachinery/pkg/apis/meta/v1/validation)
 */
export function writeOptionsOf(
  query: URLSearchParams,
  kind: 'CreateOptions' | 'UpdateOptions' | 'PatchOptions',
  isApply = false,
): WriteOptions {
  const causes: Cause[] = [...dryRunProblems(query.getAll('dryRun'))];
  const fieldManager = query.get('fieldManager') ?? '';
  if (fieldManager.length > 128) causes.push(tooLong('fieldManager', 128));
  const force = query.get('force') === 'true' || query.get('force') === '1';
  if (isApply && fieldManager === '') {
    causes.push({
      reason: 'FieldValueRequired',
      message: 'Required value: is required for apply patch',
      field: 'fieldManager',
    });
  }
  if (force && !isApply) {
    causes.push({
      reason: 'FieldValueForbidden',
      message: 'Forbidden: may not be specified for non-apply patch',
      field: 'force',
    });
  }
  const asked = query.get('fieldValidation') ?? '';
  const fieldValidation = FIELD_VALIDATIONS.find((known) => known === asked);
  if (fieldValidation === undefined) {
    causes.push({
      reason: 'FieldValueNotSupported',
      message: `Unsupported value: "${asked}": supported values: "", "Ignore", "Strict", "Warn"`,
      field: 'fieldValidation',
    });
  }
  if (causes.length > 0) throw invalid({ ...GROUP, kind }, '', causes);
  return {
    dryRun: query.has('dryRun'),
    fieldManager,
    fieldValidation: fieldValidation ?? '',
    force,
  };
}

const tooLong = (field: string, limit: number): Cause => ({
  reason: 'FieldValueTooLong',
  message: `Too long: may not be more than ${limit} bytes`,
  field,
});

function dryRunProblems(values: readonly string[]): readonly Cause[] {
  if (values.every((value) => value === 'All')) return [];
  return [
    {
      reason: 'FieldValueNotSupported',
      message: `Unsupported value: ${JSON.stringify(values)}: supported values: "All"`,
      field: 'dryRun',
    },
  ];
}

/** DeleteOptions from the body or the query; the body wins, as in the API server. */
export interface DeleteOptions {
  readonly dryRun: boolean;
  readonly propagationPolicy: 'Background' | 'Foreground' | 'Orphan' | undefined;
  readonly gracePeriodSeconds: number | undefined;
  readonly preconditions: { readonly uid?: string; readonly resourceVersion?: string };
  /** The options that webhooks receive. */
  readonly json: JsonObject;
}

type DeleteRequest = Pick<ApiRequest, 'query' | 'body' | 'contentType'>;

/**
 * @throws ApiFailure 400 if the body is not DeleteOptions, 415 if its type is not supported, 422 if a value is out of
 *   range
 */
export function deleteOptionsOf({ query, body, contentType }: DeleteRequest): DeleteOptions {
  const given = body.length === 0 ? optionsOfQuery(query) : optionsOfBody(parseBody(body, contentType));
  const dryRun = ownValue(given, 'dryRun');
  const policy = ownValue(given, 'propagationPolicy');
  const orphan = ownValue(given, 'orphanDependents');
  const grace = ownValue(given, 'gracePeriodSeconds');
  const preconditions = ownValue(given, 'preconditions');
  const causes: Cause[] = [...dryRunProblems(Array.isArray(dryRun) ? dryRun.map(String) : [])];
  if (policy !== undefined && policy !== 'Background' && policy !== 'Foreground' && policy !== 'Orphan') {
    causes.push({
      reason: 'FieldValueNotSupported',
      message: `Unsupported value: "${shown(policy)}": supported values: "Foreground", "Background", "Orphan", "nil"`,
      field: 'propagationPolicy',
    });
  }
  if (policy !== undefined && orphan !== undefined) {
    causes.push({
      reason: 'FieldValueInvalid',
      message: `Invalid value: "${shown(policy)}": orphanDependents and deletionPropagation cannot be both set`,
      field: 'propagationPolicy',
    });
  }
  if (causes.length > 0) throw invalid({ ...GROUP, kind: 'DeleteOptions' }, '', causes);
  return {
    dryRun: Array.isArray(dryRun) && dryRun.includes('All'),
    propagationPolicy:
      policy === 'Background' || policy === 'Foreground' || policy === 'Orphan'
        ? policy
        : orphan === true
          ? 'Orphan'
          : orphan === false
            ? 'Background'
            : undefined,
    gracePeriodSeconds: typeof grace === 'number' ? grace : undefined,
    preconditions: isJsonObject(preconditions) ? textsOf(preconditions) : {},
    json: { kind: 'DeleteOptions', apiVersion: 'meta.k8s.io/v1', ...withoutType(given) },
  };
}

const shown = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));

function withoutType(options: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(options).filter(([key]) => key !== 'kind' && key !== 'apiVersion'),
  );
}

function textsOf(preconditions: JsonObject): DeleteOptions['preconditions'] {
  const { uid, resourceVersion } = preconditions;
  return {
    ...(typeof uid === 'string' ? { uid } : {}),
    ...(typeof resourceVersion === 'string' ? { resourceVersion } : {}),
  };
}

function optionsOfQuery(query: URLSearchParams): JsonObject {
  const grace = query.get('gracePeriodSeconds');
  const policy = query.get('propagationPolicy');
  const orphan = query.get('orphanDependents');
  return {
    ...(query.has('dryRun') ? { dryRun: query.getAll('dryRun') } : {}),
    ...(grace === null ? {} : { gracePeriodSeconds: Number(grace) }),
    ...(policy === null ? {} : { propagationPolicy: policy }),
    ...(orphan === null ? {} : { orphanDependents: orphan === 'true' }),
  };
}

function optionsOfBody(value: JsonValue): JsonObject {
  if (!isJsonObject(value)) throw badRequest("couldn't get version/kind; json parse error: not an object");
  const kind = ownValue(value, 'kind');
  if (kind !== undefined && kind !== 'DeleteOptions') {
    throw badRequest(`unable to decode body as DeleteOptions: got the kind ${stringifyJson(kind)}`);
  }
  return value;
}
