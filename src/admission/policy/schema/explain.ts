import type { ErrorObject } from 'ajv';

import type { SchemaFlaw } from '../compiled-policy.ts';
import type { CauseType } from '../../review/decision.ts';
import { formatPath } from '../../../json/field-path.ts';
import { isJsonArray, isJsonObject, type JsonValue } from '../../../json/json.ts';
import { quote } from '../../../json/printable.ts';

const MOST_FLAWS = 32;
const MOST_HINTS = 3;

type Error = Pick<ErrorObject, 'instancePath' | 'schemaPath' | 'keyword' | 'params' | 'message'>;

/** Ajv's errors in the terms of the Kubernetes API. Leaves out values: they may be secret. */
export function explainErrors(errors: readonly Error[], value: JsonValue): readonly SchemaFlaw[] {
  const choices = errors.filter(({ keyword }) => keyword === 'anyOf' || keyword === 'oneOf');
  const isBranch = (error: Error) =>
    choices.some(
      (choice) =>
        choice !== error &&
        error.schemaPath.startsWith(`${choice.schemaPath}/`) &&
        error.instancePath.startsWith(choice.instancePath),
    );
  const shown = errors.filter((error) => error.keyword !== 'if' && !isBranch(error));
  const more = shown.length > MOST_FLAWS ? { hasMore: true } : {};
  return shown.slice(0, MOST_FLAWS).map((error) => {
    const hints = errors.filter(
      (other) => other !== error && other.schemaPath.startsWith(`${error.schemaPath}/`),
    );
    return { ...explain(error, hints, value), keyword: error.schemaPath, ...more };
  });
}

function explain(error: Error, hints: readonly Error[], value: JsonValue): SchemaFlaw {
  const { keyword, params, message = 'is not valid' } = error;
  const flaw = (reason: CauseType, text: string, key?: string): SchemaFlaw => ({
    field: fieldOf(error.instancePath, value, key),
    reason,
    message: text,
  });
  const named = (name: string): string => String(params[name]);
  switch (keyword) {
    case 'required':
      return flaw('FieldValueRequired', 'is required: add it', named('missingProperty'));
    case 'dependentRequired':
      return flaw(
        'FieldValueRequired',
        `is required together with ${named('property')}: add it`,
        named('missingProperty'),
      );
    case 'additionalProperties':
    case 'unevaluatedProperties': {
      const key: unknown = params.additionalProperty ?? params.unevaluatedProperty;
      return flaw('FieldValueForbidden', 'is not a known field: remove it', String(key));
    }
    case 'propertyNames':
      return flaw('FieldValueInvalid', `has a key that is not allowed: ${quote(params.propertyName)}`);
    case 'type':
      return flaw('FieldValueTypeInvalid', `has to be of type ${named('type').replaceAll(',', ' or ')}`);
    case 'enum':
      return flaw('FieldValueNotSupported', `has to be one of ${valuesOf(params.allowedValues)}`);
    case 'const':
      return flaw('FieldValueNotSupported', `has to be ${JSON.stringify(params.allowedValue)}`);
    case 'pattern':
      return flaw('FieldValueInvalid', `has to match ${named('pattern')}`);
    case 'format':
      return flaw('FieldValueInvalid', `has to be a ${named('format')}`);
    case 'maxLength':
      return flaw('FieldValueTooLong', `may have ${named('limit')} characters at most`);
    case 'anyOf':
    case 'oneOf':
      return flaw('FieldValueInvalid', alternatives(params, hints));
    case 'not':
      return flaw('FieldValueInvalid', 'must not match the schema in "not"');
    case 'false schema':
      return flaw('FieldValueForbidden', 'is not allowed: remove it');
    default:
      return flaw(
        'FieldValueInvalid',
        message.replace(/^must /, 'has to ').replace(/^has to NOT /, 'must not '),
      );
  }
}

function alternatives(params: Error['params'], hints: readonly Error[]): string {
  if (Array.isArray(params.passingSchemas))
    return 'fits more than one of the alternatives in oneOf, and has to fit one';
  const reasons = hints
    .slice(0, MOST_HINTS)
    .map(({ instancePath, message = 'is not valid' }) =>
      `${instancePath.slice(1).replaceAll('/', '.')} ${message}`.trim(),
    );
  return `fits none of the alternatives${reasons.length === 0 ? '' : `: ${reasons.join('; ')}`}`;
}

function valuesOf(allowed: unknown): string {
  if (!Array.isArray(allowed)) return 'the values in the schema';
  const shown = allowed.slice(0, 16).map((value) => JSON.stringify(value));
  return `${shown.join(', ')}${allowed.length > shown.length ? ', …' : ''}`;
}

function fieldOf(pointer: string, value: JsonValue, key?: string): string {
  let here: JsonValue | undefined = value;
  const keys = pointer
    .split('/')
    .slice(1)
    .map((part): string | number => {
      const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
      const place = isJsonArray(here) ? Number(name) : name;
      here = isJsonArray(here) ? here[Number(name)] : isJsonObject(here) ? here[name] : undefined;
      return place;
    });
  return formatPath(key === undefined ? keys : [...keys, key]);
}
