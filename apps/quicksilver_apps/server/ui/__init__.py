"""The pages of the app server at `/ui`, in the frame of `quicksilver/common/web`; they are drawn from REST's JSON."""
