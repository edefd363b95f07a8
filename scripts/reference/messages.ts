/** All texts that the product says: refusals, warnings, conditions, Events, log lines and command output. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';

import { code, table, type File } from './page.ts';

const SOURCE = join(import.meta.dirname, '..', '..', 'src');
/** These are on other pages of the reference, or are no prose: field descriptions, metrics,
 * and embedded programs and markup. */
const ELSEWHERE =
  /^(?:api\/|machinery\/kinds\/|server\/metrics\/catalog|server\/status-page\/(?:style|script))|\.test\.ts$/;
const LEAST_WORDS = 3;

export function messagesPage(): File {
  const files = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts') && !ELSEWHERE.test(path))
    .toSorted();
  const rooms = Map.groupBy(files, (path) => (path.includes('/') ? path.replace(/\/.*/, '') : '.'));
  const sections = [...rooms].flatMap(([room, paths]) => {
    const messages = new Set(paths.flatMap((path) => messagesIn(path)));
    const rows = [...messages].map((text) => [code(text)]);
    return rows.length === 0 ? [] : [`## ${room}\n\n${table(['message'], rows)}`];
  });
  return {
    file: 'messages.md',
    title: 'Messages',
    text: `Every text of the source, by room; \`…\` stands for a value. [Troubleshooting](../troubleshooting.md) explains the ones that need a decision. The sandbox and \`machinery\` repeat the messages of kube-apiserver.\n\n${sections.join('\n\n')}`,
  };
}

function messagesIn(path: string): readonly string[] {
  const file = ts.createSourceFile(path, readFileSync(join(SOURCE, path), 'utf8'), ts.ScriptTarget.Latest);
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    const text = textOf(node);
    if (text === undefined) {
      ts.forEachChild(node, visit);
      return;
    }
    if (isProse(text)) found.push(text);
    const inner = ts.isTemplateExpression(node) ? node.templateSpans.map(({ expression }) => expression) : [];
    inner.forEach(visit);
  };
  visit(file);
  return found;
}

/** The text of a literal, or of literals joined with `+`. */
function textOf(node: ts.Node): string | undefined {
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return node.text;
  if (ts.isTemplateExpression(node))
    return node.head.text + node.templateSpans.map(({ literal }) => `…${literal.text}`).join('');
  if (!ts.isBinaryExpression(node) || node.operatorToken.kind !== ts.SyntaxKind.PlusToken) return undefined;
  const [left, right] = [textOf(node.left), textOf(node.right)];
  return left === undefined || right === undefined ? undefined : left + right;
}

function isProse(text: string): boolean {
  if (/[{}<>]|=>|;$|\n|==|!\(|\.\w+\(/.test(text)) return false;
  const words = text.split(' ').filter((word) => /^[("]?[A-Za-z]{2,}/.test(word));
  // A list of fields, such as `minReadySeconds paused replicas`.
  const isList = words.filter((word) => /^[a-z]+[A-Z]/.test(word)).length > words.length / 3;
  return words.length >= LEAST_WORDS && !isList;
}
