/** What Gatehouse says about likely mistakes, as a documentation page. */
import { EXPRESSIONS } from '../../test/mistakes/expressions.ts';
import { FIELDS } from '../../test/mistakes/fields.ts';
import type { Mistake } from '../../test/mistakes/mistake.ts';
import { SCOPE } from '../../test/mistakes/scope.ts';
import { cell, code, table, type File } from './page.ts';

export const mistakesPage = (): File => ({
  file: 'mistakes.md',
  title: 'Mistakes in policies',
  text: [
    'What Gatehouse says about the most likely mistakes of policy authors. A test feeds each of them. `gatehouse review` says it with the file, ' +
      'the line, the column and a caret, and exits with 2. In a cluster, `kubectl apply` prints it as a warning (`not enforced: …`), and ' +
      'the condition `Ready` of the policy contains it; see [policies](../policies.md#mistakes).',
    section('Fields that do not exist', FIELDS),
    section('Expressions', EXPRESSIONS),
    section('Scope and checks', SCOPE),
  ].join('\n\n'),
});

const section = (title: string, mistakes: readonly Mistake[]): string =>
  `## ${title}\n\n${table(['mistake', 'written', 'Gatehouse says'], mistakes.map(rowOf))}`;

const rowOf = ({ mistake, line, says }: Mistake): readonly string[] => [
  cell(mistake),
  code(line),
  cell(says.map(withoutField).join('; ')),
];

/** The messages without the field of the policy, which the line shows. */
const withoutField = (text: string): string => text.replace(/^spec[\w.[\]]*: /, '');
