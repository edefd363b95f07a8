/** Links of the pages to one another and to files of the repository. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

import { proseOf } from '../../scripts/markdown.ts';
import { ROOT, type Page } from './doc-pages.ts';

/** Links of the page without a target in the repository. Links to other sites are out of scope. */
export function brokenLinks({ path, markdown }: Page): readonly string[] {
  const prose = proseOf(markdown).replaceAll(/`[^`\n]*`/g, '');
  const links = [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link);
  return links
    .filter((link) => !/^[a-z]+:/.test(link))
    .filter((link) => {
      const [file = '', anchor] = link.split('#');
      const target = file === '' ? join(ROOT, path) : join(ROOT, dirname(path), decodeURI(file));
      if (!existsSync(target) || relative(ROOT, target).startsWith('..')) return true;
      if (anchor === undefined || !target.endsWith('.md')) return false;
      return !anchorsOf(readFileSync(target, 'utf8')).has(anchor);
    });
}

/** Anchors as GitHub generates them from headings; a repeated heading gets a number. */
export function anchorsOf(markdown: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const [, heading = ''] of proseOf(markdown).matchAll(/^#{1,6} (.+)$/gm)) {
    const slug = heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
      .trim()
      .replaceAll(' ', '-');
    let unique = slug;
    for (let count = 1; anchors.has(unique); count += 1) unique = `${slug}-${count}`;
    anchors.add(unique);
  }
  return anchors;
}
