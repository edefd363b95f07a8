/**
 * The heap limits in a container of 512 MiB, the limit in deploy/base: Node takes half of it for the old generation, and
 * the image sets the size of a semi-space. On a machine with more memory, Node collects garbage later.
 */
export const CONTAINER_HEAP = ['--max-old-space-size=256', '--max-semi-space-size=8'];
