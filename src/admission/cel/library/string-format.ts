import { define } from './define.ts';
export const stringFormat = [define('<string>.format(list<dyn>): string', (text) => text)];
