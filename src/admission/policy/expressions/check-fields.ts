import { CelError, type CelProgram } from '../../../cel/cel.ts';
import { nearest } from '../../../cel/compile/compile-select.ts';
import { quote } from '../../../json/printable.ts';

/** The names that a policy declares, in its order. */
export interface Declared {
  readonly variables: readonly string[];
  readonly references: readonly string[];
}

/**
 * Without this check, an expression with a misspelt name would compile, and then refuse every request.
 *
 * @param visible the number of variables that the expression may use: in a variable, only those before it
 * @throws CelError if the expression reads a field of `variables` or `refs` that the policy does not declare
 */
export function checkFields({ reads }: CelProgram, declared: Declared, visible: number): void {
  const variables = reads.get('variables') ?? [];
  if (variables === 'all')
    throw new CelError(
      'uses variables as a whole: write variables.<name>, so that Gatehouse knows which it reads',
    );
  const before = declared.variables.slice(0, visible);
  for (const name of variables) {
    if (before.includes(name)) continue;
    if (!declared.variables.includes(name))
      throw unknown('variables', name, before, 'declare it in spec.variables');
    throw new CelError(
      `variables.${name} is not declared before this variable: a variable can only use those above it in spec.variables`,
    );
  }
  const references = reads.get('refs') ?? [];
  if (references === 'all') return;
  for (const name of references) {
    if (!declared.references.includes(name))
      throw unknown('refs', name, declared.references, 'name a reference of spec.validate.references');
  }
}

function unknown(group: string, name: string, known: readonly string[], advice: string): CelError {
  const meant = nearest(name, known);
  const problem = `${group}[${quote(name)}] does not exist: ${advice}`;
  return new CelError(meant === undefined ? problem : `${problem}, or did you mean ${group}.${meant}?`);
}
