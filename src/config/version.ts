/** The version in package.json, repeated here because not every build contains that file. A test compares the two. */
export const VERSION = '0.1.0';
