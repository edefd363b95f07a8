import { ApiFailure } from '../failure.ts';
import { pathsOf, type FieldSet } from './field-set.ts';
import type { Manager } from './managers.ts';

/** What an apply would take from somebody. */
export interface Conflict {
  readonly manager: Manager;
  readonly fields: FieldSet;
}

/**
 * The refusal of an apply, with a cause for each field.
 *
 * @param conflicts in the order in which they are to be named
 * @see k8s.io/apimachinery/pkg/util/managedfields/internal/conflict.go
 */
export function applyConflict(conflicts: readonly Conflict[]): ApiFailure {
  const named = conflicts.map(({ manager, fields }) => ({ who: nameOf(manager), paths: pathsOf(fields) }));
  const causes = named.flatMap(({ who, paths }) =>
    paths.map((field) => ({ reason: 'FieldManagerConflict', message: `conflict with ${who}`, field })),
  );
  const [only] = causes;
  const message =
    causes.length === 1 && only !== undefined
      ? `1 conflict: ${only.message}: ${only.field}`
      : `${causes.length} conflicts: ${named.map(linesOf).join('\n')}`;
  return new ApiFailure(409, 'Conflict', `Apply failed with ${message}`, { causes });
}

const linesOf = ({ who, paths }: { readonly who: string; readonly paths: readonly string[] }) =>
  [`conflicts with ${who}:`, ...paths.map((path) => `- ${path}`)].join('\n');

function nameOf({ manager, operation, apiVersion, subresource }: Manager): string {
  const where = subresource === '' ? '' : ` with subresource ${JSON.stringify(subresource)}`;
  return JSON.stringify(manager) + where + (operation === 'Update' ? ` using ${apiVersion}` : '');
}
