// Package relocate renames a directory of an overlay that the kernel does not rename.
//
// What the host has in an overlay lies in a lower layer. A rename of such a directory would have to be noted in the upper layer
// (redirect_dir), which the kernel does for nobody who may mount in a user namespace alone: rename(2) fails with EXDEV. So it is done here by
// calls that the kernel does perform, as the thread that calls:
//
//  1. A new directory is made beside the new name. Directories are made in it, with the attributes of the old ones, and files are linked
//     into it. The kernel copies a file of a lower layer up when it is linked, with all that it has: owner, times, attributes. It may be
//     one that the caller could not read.
//  2. The new directory gets its name, at one instant. Until now nothing of the old one was changed, and whatever is in the way is said
//     by the kernel, as rename(2) would say it.
//  3. The old directory is emptied and removed. What was written in it meanwhile is moved, too.
//
// If the first step fails, the new directory is removed. If the third does, what is gone is linked back, and the new
// directory is removed. Whoever looks in the third step sees the new directory whole and the old one in part; if all of this is killed then,
// both are left so, and nothing is lost.
//
// What is mounted somewhere in the directory is never touched (EXDEV): see look.
//
// What differs from rename(2): the directories are new ones, so who has one open, or works in it, keeps one that is removed. Files with several names in a
// lower layer lose each other, as they do whenever an overlay copies them up.
package relocate
